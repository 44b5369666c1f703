//! Files in object stores, at addresses such as `s3://bucket/dir/file`.
//!
//! An address is carried as a path whose parts are those of the address, so that sources and sinks treat both alike; [`Address`]
//! tells them apart. Requests run on a thread of their own ([`ObjectRequests`]), because those who ask are readers, which may block, as
//! well as tasks that may not: the former wait, the latter await.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{
    GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, WriteMultipart,
};
use weir_runtime::{ObjectStoreSettings, Result, WeirError};
use weir_state::CheckpointLocation;
use weir_state::location::{ObjectRequests, found};

/// Bytes of a part of an upload; the least that stores take.
const PART_BYTES: usize = 8 << 20;
/// Bytes of one request for a part of an object.
const FETCHED_BYTES: u64 = 16 << 20;
/// Parts of one upload under way at the same time.
const PARTS: usize = 4;
/// Deletions under way at the same time.
const DELETIONS: usize = 16;

/// A path that is the address of an object or of a directory of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) host: &'a str,
    /// Without a slash at either end.
    pub(crate) key: &'a str,
}

impl<'a> Address<'a> {
    /// `None` for a path of the local disk.
    pub(crate) fn of(path: &'a Path) -> Option<Self> {
        Self::parse(path.to_str()?)
    }

    /// `None` if it is none.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        // Taken apart and put together again, paths lose one of the two slashes.
        let (scheme, rest) = text.split_once(":/")?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if !is_scheme || scheme == "file" {
            return None;
        }
        let rest = rest.trim_matches('/');
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        (!host.is_empty()).then_some(Self { scheme, host, key })
    }
}

/// One bucket of an object store; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    bucket: CheckpointLocation,
    requests: ObjectRequests,
}

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    /// Bytes.
    pub(crate) size: u64,
    /// Time of modification, unix milliseconds.
    pub(crate) mtime_ms: i64,
}

impl From<&ObjectMeta> for Object {
    fn from(meta: &ObjectMeta) -> Self {
        Self {
            size: meta.size,
            mtime_ms: meta.last_modified.timestamp_millis(),
        }
    }
}

impl Remote {
    /// The bucket of an address; `None` for a path of the local disk.
    ///
    /// # Errors
    /// If there is no such kind of store, or the settings do not fit.
    pub(crate) fn of(path: &Path, settings: &ObjectStoreSettings) -> Result<Option<Self>> {
        let Some(address) = Address::of(path) else {
            return Ok(None);
        };
        let root = format!("{}://{}", address.scheme, address.host);
        let bucket = CheckpointLocation::open_with(&root, settings)?;
        let requests = bucket.object_requests()?.ok_or_else(|| {
            WeirError::config(format!("'{root}' is not the address of an object store"))
        })?;
        Ok(Some(Self { bucket, requests }))
    }

    /// A directory of the bucket, for objects that are written only if they are not there.
    pub(crate) fn location(&self, dir: &Path) -> Result<CheckpointLocation> {
        let key = key(dir)?;
        let location = self.bucket.object_dir(key.as_ref())?;
        location.ok_or_else(|| WeirError::internal("a bucket is no object store"))
    }

    /// What `work` gives, done on the thread of the store; `action` (a verb) and `path` are for the error.
    async fn run<T, F>(&self, action: &'static str, path: &Path, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<dyn ObjectStore>) -> BoxFuture<'static, object_store::Result<T>>
            + Send
            + 'static,
    {
        let path = path.display().to_string();
        Ok(self.requests.run(action, &path, work).await?)
    }

    /// The objects below a directory, at any depth, sorted by key: keys and what is known of them.
    pub(crate) async fn list(&self, dir: &Path) -> Result<Vec<(String, Object)>> {
        let prefix = key(dir)?;
        self.run("list", dir, move |store| {
            async move {
                let below = (!prefix.as_ref().is_empty()).then_some(&prefix);
                let mut listed: Vec<ObjectMeta> = store.list(below).try_collect().await?;
                listed.sort_unstable_by(|a, b| a.location.cmp(&b.location));
                listed.dedup_by(|a, b| a.location == b.location);
                let mut objects = Vec::with_capacity(listed.len());
                for meta in &listed {
                    if meta.location == prefix || is_folder(store.as_ref(), meta).await? {
                        continue;
                    }
                    objects.push((meta.location.to_string(), Object::from(meta)));
                }
                Ok(objects)
            }
            .boxed()
        })
        .await
    }

    /// What is known of an object; `None` if it is not there.
    pub(crate) async fn look(&self, path: &Path) -> Result<Option<Object>> {
        let key = key(path)?;
        self.run("look at", path, move |store| {
            async move { found(store.head(&key).await).map(|meta| meta.map(|meta| (&meta).into())) }
                .boxed()
        })
        .await
    }

    /// The bytes of a small object; `None` if it is not there.
    pub(crate) async fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let key = key(path)?;
        self.run("read", path, move |store| {
            async move {
                match found(store.get(&key).await)? {
                    Some(object) => Ok(Some(object.bytes().await?.to_vec())),
                    None => Ok(None),
                }
            }
            .boxed()
        })
        .await
    }

    /// Some of the bytes of an object.
    pub(crate) async fn part(&self, path: &Path, range: Range<u64>) -> Result<Bytes> {
        let key = key(path)?;
        self.run("read", path, move |store| {
            async move { store.get_range(&key, range).await }.boxed()
        })
        .await
    }

    /// A copy of an object on the local disk, which goes away when it is closed, and what is known of the object; `None` if it is not
    /// there. `size` is what it was when somebody looked: what is large comes in parts, so that none takes long.
    pub(crate) async fn fetch(&self, path: &Path, size: u64) -> Result<Option<(File, Object)>> {
        let key = key(path)?;
        let mut copy = tempfile::tempfile().map_err(|error| copy_error(path, error))?;
        let fetched = self
            .run("read", path, move |store| {
                async move {
                    let mut options = GetOptions::default();
                    if size > FETCHED_BYTES {
                        options.range = Some((0..FETCHED_BYTES).into());
                    }
                    let Some(first) = found(store.get_opts(&key, options).await)? else {
                        return Ok(None);
                    };
                    let (meta, mut done) = (first.meta.clone(), first.range.end);
                    append(&mut copy, first).await?;
                    while done < meta.size {
                        let options = GetOptions {
                            range: Some((done..meta.size.min(done + FETCHED_BYTES)).into()),
                            // All parts are of one version.
                            if_match: meta.e_tag.clone(),
                            ..GetOptions::default()
                        };
                        let next = store.get_opts(&key, options).await?;
                        done = next.range.end;
                        append(&mut copy, next).await?;
                    }
                    copy.rewind().map_err(disk)?;
                    Ok(Some((copy, Object::from(&meta))))
                }
                .boxed()
            })
            .await?;
        Ok(fetched)
    }

    /// Writes an object with the content of a file, from its beginning; what was there is replaced.
    pub(crate) async fn store(&self, path: &Path, mut file: File) -> Result<()> {
        let key = key(path)?;
        self.run("write", path, move |store| {
            async move {
                file.rewind().map_err(disk)?;
                let mut part = read_part(&mut file)?;
                if part.len() < PART_BYTES {
                    return store.put(&key, part.into()).await.map(drop);
                }
                let upload = store.put_multipart(&key).await?;
                let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
                while !part.is_empty() {
                    upload.wait_for_capacity(PARTS).await?;
                    upload.put(part.into());
                    part = read_part(&mut file)?;
                }
                upload.finish().await.map(drop)
            }
            .boxed()
        })
        .await
    }

    /// Gives an object another name; false if it is not there.
    pub(crate) async fn rename(&self, from: &Path, to: &Path) -> Result<bool> {
        let (source, target) = (key(from)?, key(to)?);
        self.run("rename", from, move |store| {
            async move {
                let (from, to) = (source, target);
                if found(store.copy(&from, &to).await)?.is_none() {
                    return Ok(false);
                }
                found(store.delete(&from).await)?;
                Ok(true)
            }
            .boxed()
        })
        .await
    }

    /// Deletes an object; true if it was there.
    pub(crate) async fn remove(&self, path: &Path) -> Result<bool> {
        let there = self.look(path).await?.is_some();
        let key = key(path)?;
        self.run("delete", path, move |store| {
            async move { found(store.delete(&key).await).map(drop) }.boxed()
        })
        .await?;
        Ok(there)
    }

    /// Deletes everything below a directory.
    pub(crate) async fn remove_dir(&self, dir: &Path) -> Result<()> {
        let prefix = key(dir)?;
        self.run("delete", dir, move |store| {
            async move {
                let keys = store.list(Some(&prefix)).map_ok(|meta| meta.location);
                let delete = |key: Key| {
                    let store = Arc::clone(&store);
                    async move { found(store.delete(&key).await).map(drop) }
                };
                keys.try_for_each_concurrent(DELETIONS, delete).await
            }
            .boxed()
        })
        .await
    }
}

/// Appends what came of an object to its copy.
async fn append(copy: &mut File, came: GetResult) -> object_store::Result<()> {
    let mut parts = came.into_stream();
    while let Some(part) = parts.next().await {
        copy.write_all(&part?).map_err(disk)?;
    }
    Ok(())
}

/// The next part of a file, shorter only at its end.
fn read_part(file: &mut File) -> object_store::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.take(PART_BYTES as u64)
        .read_to_end(&mut part)
        .map_err(disk)?;
    Ok(part)
}

/// Whether an object stands for a directory: people and programs that make "folders" write empty objects whose keys end with a
/// slash, which a listing gives without it and nobody finds by that name.
async fn is_folder(store: &dyn ObjectStore, meta: &ObjectMeta) -> object_store::Result<bool> {
    match meta.size {
        0 => Ok(found(store.head(&meta.location).await)?.is_none()),
        _ => Ok(false),
    }
}

fn key(path: &Path) -> Result<Key> {
    let key = Address::of(path).map_or("", |address| address.key);
    Key::parse(key).map_err(|error| {
        let message = format!("'{}' is no address of an object: {error}", path.display());
        WeirError::config(message).with_source(error)
    })
}

fn disk(error: std::io::Error) -> object_store::Error {
    object_store::Error::Generic {
        store: "local copy",
        source: Box::new(error),
    }
}

fn copy_error(path: &Path, error: std::io::Error) -> WeirError {
    let message = format!("no room for a local copy of '{}': {error}", path.display());
    WeirError::external(message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        let address = |scheme, host, key| Some(Address { scheme, host, key });
        for (path, expected) in [
            ("s3://bucket/a/b c", address("s3", "bucket", "a/b c")),
            ("s3:/bucket/a/", address("s3", "bucket", "a")),
            ("memory://x", address("memory", "x", "")),
            ("/data/s3://x", None),
            ("file:///data", None),
            ("data:/x", address("data", "x", "")),
            ("/plain", None),
        ] {
            assert_eq!(Address::of(Path::new(path)), expected, "{path}");
        }
    }

    #[tokio::test]
    async fn objects_come_and_go_by_name_and_large_ones_in_parts() {
        let dir = Path::new("memory://remote-test/dir");
        let remote = Remote::of(dir, &ObjectStoreSettings::default())
            .expect("known")
            .expect("remote");
        let path = dir.join("k=a%2Fb/x y.json");
        let content = vec![7_u8; 2 * PART_BYTES + 5];
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&content).expect("written");
        remote.store(&path, file).await.expect("stored");
        let fetched = remote.fetch(&path, content.len() as u64).await;
        let (mut copy, object) = fetched.expect("read").expect("there");
        let mut read = Vec::new();
        copy.read_to_end(&mut read).expect("read");
        assert!(read == content && object.size == content.len() as u64);
        let to = dir.join("other");
        assert!(remote.rename(&path, &to).await.expect("renamed"));
        assert!(!remote.rename(&path, &to).await.expect("nothing there"));
        let listed = remote.list(dir).await.expect("listed");
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].0, "dir/other");
        assert!(remote.remove(&to).await.expect("removed"));
        assert!(!remote.remove(&to).await.expect("gone"));
        assert_eq!(remote.read(&to).await.expect("no error"), None);
        CheckpointLocation::forget_memory("remote-test");
    }
}
