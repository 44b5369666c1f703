//! CSV in, partitioned JSON out: `partitionBy` makes one directory per value, `union` brings two streams together, bad rows are kept
//! apart in a column instead of being lost.

use std::fs;

use weir::prelude::*;

fn io(error: std::io::Error) -> WeirError {
    WeirError::external(error.to_string()).with_source(error)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let home = tempfile::tempdir().map_err(io)?;
    let path = |name: &str| home.path().join(name).display().to_string();
    for (shop, rows) in [
        ("north", "id,country,total\n1,NO,10.5\n2,SE,7\n"),
        ("south", "id,country,total\n3,IT,1\n4,IT,many\n"),
    ] {
        fs::create_dir(path(shop)).map_err(io)?;
        fs::write(format!("{}/day.csv", path(shop)), rows).map_err(io)?;
    }

    let session = Session::new()?;
    let read = |shop: &str| {
        session
            .read_stream()
            .schema("id INT, country STRING, total DECIMAL(10,2), _corrupt_record STRING")
            .option("header", true)
            .csv(&path(shop))
    };
    let query = read("north")?
        .union(&read("south")?)?
        .with_column_renamed("_corrupt_record", "bad_line")?
        .write_stream()
        .format("json")
        .partition_by(["country"])
        .option("checkpointLocation", path("checkpoint"))
        .trigger(Trigger::AvailableNow)
        .start_path(&path("out"))
        .await?;
    query.await_termination().await?;

    let mut countries: Vec<String> = fs::read_dir(path("out"))
        .map_err(io)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("country="))
        .collect();
    countries.sort();
    println!("{countries:?}");
    for entry in fs::read_dir(format!("{}/country=IT", path("out"))).map_err(io)? {
        println!(
            "{}",
            fs::read_to_string(entry.map_err(io)?.path()).map_err(io)?
        );
    }
    assert_eq!(countries, ["country=IT", "country=NO", "country=SE"]);
    Ok(())
}
