//! Wrapping a backend's handle.

/// Declares a handle around another (`self.file`) that forwards everything but what the layer has
/// to translate: how it shows metadata (`shown`), how it wraps a further handle on the same file
/// (`reopened`), and how it takes a name of its own (`link_to`).
///
/// ```
/// # use stratafs::{Metadata, Opened};
/// stratafs::wrap_file! {
///     /// A handle whose file seems to be empty.
///     struct Emptied { }
///     fn shown(self, metadata) { Metadata { len: 0, ..metadata } }
///     fn reopened(self, opened) { opened.map(|file| Box::new(Emptied { file })) }
///     fn link_to(self, path) { self.file.link_to(path) }
/// }
/// ```
#[macro_export]
macro_rules! wrap_file {
    (
        $(#[$doc:meta])*
        struct $name:ident { $($field:ident: $type:ty),* }
        fn shown($m_self:ident, $metadata:ident) $shown:block
        fn reopened($r_self:ident, $opened:ident) $reopened:block
        fn link_to($l_self:ident, $path:ident) $link_to:block
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            pub(crate) file: Box<dyn $crate::File>,
            $(pub(crate) $field: $type),*
        }

        impl $name {
            fn shown(&$m_self, $metadata: $crate::Metadata) -> $crate::Metadata $shown
        }

        #[deny(clippy::missing_trait_methods)]
        impl $crate::File for $name {
            fn read_at(&self, buf: &mut [u8], offset: u64) -> $crate::BackendResult<usize> {
                self.file.read_at(buf, offset)
            }

            fn write_at(&self, buf: &[u8], offset: u64) -> $crate::BackendResult<usize> {
                self.file.write_at(buf, offset)
            }

            fn bytes_at(
                &self,
                range: ::std::ops::Range<u64>,
            ) -> $crate::BackendResult<Option<$crate::kit::Bytes>> {
                self.file.bytes_at(range)
            }

            fn set_len(&self, len: u64) -> $crate::BackendResult<()> {
                self.file.set_len(len)
            }

            fn metadata(&self) -> $crate::BackendResult<$crate::Metadata> {
                self.file.metadata().map(|metadata| self.shown(metadata))
            }

            fn set_metadata(
                &self,
                change: &$crate::MetadataChange,
            ) -> $crate::BackendResult<$crate::Metadata> {
                self.file.set_metadata(change).map(|metadata| self.shown(metadata))
            }

            fn sync(&self, scope: $crate::SyncScope) -> $crate::BackendResult<()> {
                self.file.sync(scope)
            }

            fn allocate(
                &self,
                what: $crate::Allocation,
                range: ::std::ops::Range<u64>,
            ) -> $crate::BackendResult<()> {
                self.file.allocate(what, range)
            }

            fn seek(&self, offset: u64, what: $crate::Seek) -> $crate::BackendResult<u64> {
                self.file.seek(offset, what)
            }

            fn link_to(&$l_self, $path: &$crate::VfsPath) -> $crate::BackendResult<()> $link_to

            fn reopen(
                &$r_self,
                options: &$crate::OpenOptions,
            ) -> $crate::BackendResult<$crate::Opened> {
                let mut $opened = $r_self.file.reopen(options)?;
                if let Some(metadata) = &mut $opened.metadata {
                    **metadata = $r_self.shown(**metadata);
                }
                Ok($reopened)
            }

            fn xattr(&self, name: &[u8]) -> $crate::BackendResult<Vec<u8>> {
                self.file.xattr(name)
            }

            fn xattrs(&self) -> $crate::BackendResult<Vec<Vec<u8>>> {
                self.file.xattrs()
            }

            fn set_xattr(
                &self,
                name: &[u8],
                value: &[u8],
                mode: $crate::XattrMode,
            ) -> $crate::BackendResult<()> {
                self.file.set_xattr(name, value, mode)
            }

            fn remove_xattr(&self, name: &[u8]) -> $crate::BackendResult<()> {
                self.file.remove_xattr(name)
            }

            fn advise(&self, advice: $crate::Advice, range: ::std::ops::Range<u64>) {
                self.file.advise(advice, range);
            }

            fn close(&self) -> $crate::BackendResult<()> {
                self.file.close()
            }

            fn seal(&self) -> $crate::BackendResult<()> {
                self.file.seal()
            }

            fn backing(&self) -> Option<$crate::Backing> {
                self.file.backing()
            }
        }
    };
}
pub use wrap_file;
