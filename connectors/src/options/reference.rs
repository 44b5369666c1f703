//! The page that lists every option, made from the tables the connectors read by.

use std::fmt::Write as _;

use super::OptionSpec;
use crate::file::options::{
    OBJECT_STORES, READ_FORMATS, SINK, SOURCE, WRITE_FORMATS, format_read_options,
    format_write_options,
};

/// `docs/options.md`: every option of every source and sink that is opened by name, with what holds without it and what it means.
pub fn reference() -> String {
    let mut page = String::from(
        "# Options\n\nMade from the tables the code reads options by; `cargo test --workspace --lib -- reference` says whether this page \
         is current, and writes it anew with `WEIR_WRITE_DOCS=1`. Names are found in any letter case. An option that is not \
         listed is an error. An empty default means that nothing holds unless the option is given.\n",
    );
    section(&mut page, "Sources: files of any format", SOURCE);
    for format in READ_FORMATS {
        let title = format!("Sources: format `{format}`, beside those of any format");
        section(&mut page, &title, &format_read_options(format));
    }
    section(
        &mut page,
        "Sources: format `rate`",
        crate::rate::RATE_OPTIONS,
    );
    section(
        &mut page,
        "Sources: format `rate-micro-batch`",
        crate::rate::MICRO_BATCH_OPTIONS,
    );
    section(
        &mut page,
        "Sources: format `socket`",
        crate::socket::OPTIONS,
    );
    section(
        &mut page,
        "Sources: format `kafka`, beside `kafka.*` for the client",
        crate::kafka::source::SOURCE_OPTIONS,
    );
    section(&mut page, "Sinks: files of any format", SINK);
    for format in WRITE_FORMATS {
        let title = format!("Sinks: format `{format}`, beside those of any format");
        section(&mut page, &title, &format_write_options(format));
    }
    section(
        &mut page,
        "Sinks: format `kafka`, beside `kafka.*` for the client",
        crate::kafka::sink::SINK_OPTIONS,
    );
    section(
        &mut page,
        "Sinks: format `console`",
        crate::console::OPTIONS,
    );
    section(
        &mut page,
        "Object stores: of sources and sinks of files, of any query for its checkpoint, and of the session, there also with `spark.hadoop.` before",
        OBJECT_STORES,
    );
    page
}

fn section(page: &mut String, title: &str, table: &[OptionSpec]) {
    const INVARIANT: &str = "invariant: writing to a string cannot fail";
    write!(page, "\n## {title}\n\n").expect(INVARIANT);
    if table.is_empty() {
        page.push_str("None.\n");
        return;
    }
    page.push_str("| option | default | meaning |\n| --- | --- | --- |\n");
    for spec in table {
        let default = match spec.default {
            "" => String::new(),
            text => format!("`{}`", cell(text)),
        };
        writeln!(
            page,
            "| `{}` | {default} | {} |",
            spec.name,
            cell(spec.meaning)
        )
        .expect(INVARIANT);
    }
}

/// A text that ends no cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn reference_of_options_is_the_committed_page() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/options.md");
        if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
            std::fs::write(&path, reference()).expect("written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == reference(),
            "docs/options.md is not what the tables say: run this test with WEIR_WRITE_DOCS=1"
        );
    }

    #[test]
    fn reference_names_every_option_once_in_a_table_and_says_what_it_means() {
        for format in READ_FORMATS {
            for tables in [
                [SOURCE.to_vec(), format_read_options(format)],
                [SINK.to_vec(), format_write_options(format)],
            ] {
                let specs = tables.concat();
                let mut names: Vec<String> = specs
                    .iter()
                    .map(|spec| spec.name.to_ascii_lowercase())
                    .collect();
                names.sort_unstable();
                let all = names.len();
                names.dedup();
                assert_eq!(names.len(), all, "{format}");
                assert!(specs.iter().all(|spec| !spec.meaning.is_empty()));
            }
        }
    }
}
