//! Opening the database, and what all databases of the process share.

use std::sync::{Arc, OnceLock};

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType,
    Options, WriteBufferManager, checkpoint::Checkpoint,
};

use super::{Files, WorkDir, failed, families};
use crate::error::Result;
use crate::table::TableSpec;

/// Bytes of blocks, filters and indexes kept in memory, and of what is not yet in a file: for all subtasks of the process.
const CACHE_BYTES: usize = 128 << 20;
/// Part of it for what is not yet in a file.
const WRITE_BUFFER_BYTES: usize = 64 << 20;
/// A file is uploaded as one piece.
const FILE_BYTES: u64 = 32 << 20;
/// The list of files is part of every base.
const MANIFEST_BYTES: usize = 256 << 10;

struct Shared {
    cache: Cache,
    write_buffers: WriteBufferManager,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let cache = Cache::new_lru_cache(CACHE_BYTES);
        let write_buffers = WriteBufferManager::new_write_buffer_manager_with_cache(
            WRITE_BUFFER_BYTES,
            false,
            cache.clone(),
        );
        Shared {
            cache,
            write_buffers,
        }
    })
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    // Without a log of its own a flush must take all column families to the same point.
    options.set_atomic_flush(true);
    options.set_write_buffer_manager(&shared().write_buffers);
    options.set_max_background_jobs(2);
    options.set_max_open_files(512);
    options.set_max_manifest_file_size(MANIFEST_BYTES);
    options.set_keep_log_file_num(1);
    options.set_max_log_file_size(1 << 20);
    options.set_stats_dump_period_sec(0);
    options
}

pub(super) fn family_options() -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&shared().cache);
    blocks.set_bloom_filter(10.0, false);
    // In pieces: as one block the filter of a file takes a megabyte, more than a part of the shared cache has room for, and every
    // look at a key would read it anew.
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_metadata_block_size(4096);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_top_level_index_and_filter(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(16 << 20);
    options.set_target_file_size_base(FILE_BYTES);
    options.set_level_compaction_dynamic_level_bytes(true);
    // Files that are mostly tombstones are compacted without waiting for their level to fill.
    options.add_compact_on_deletion_collector_factory(8192, 4096, 0.5);
    options
}

impl Files {
    /// Opens the database in `<dir>/db`, empty or as a base left it.
    pub(crate) fn open(dir: Arc<WorkDir>, specs: &[TableSpec]) -> Result<Arc<Self>> {
        let path = dir.path().join("db");
        let names = specs.iter().flat_map(families);
        let families: Vec<ColumnFamilyDescriptor> = std::iter::once("default".to_string())
            .chain(names)
            .map(|name| ColumnFamilyDescriptor::new(name, family_options()))
            .collect();
        let db = DB::open_cf_descriptors(&database_options(), &path, families)
            .map_err(|e| failed("open", &path, &e))?;
        Ok(Arc::new(Self {
            db,
            dir,
            specs: specs.to_vec(),
        }))
    }

    pub(crate) fn dir(&self) -> &Arc<WorkDir> {
        &self.dir
    }

    /// Makes `name` in the working directory hold the state of the last flush, sharing files with the database.
    pub(crate) fn checkpoint(&self, name: &str) -> Result<std::path::PathBuf> {
        let path = self.dir.path().join(name);
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(&path))
            .map_err(|e| self.error("copy", &e))?;
        Ok(path)
    }
}
