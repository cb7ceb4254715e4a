//! Wrapping a backend's handle.

/// Declares a handle around another that forwards everything but `metadata` and `link_to`:
/// what a layer must translate is names and file ids, and these are the two methods that
/// carry them.
macro_rules! wrap_file {
    (
        $(#[$doc:meta])*
        struct $name:ident { $($field:ident: $type:ty),* }
        fn metadata($m_self:ident) $metadata:block
        fn link_to($l_self:ident, $path:ident) $link_to:block
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name {
            pub(crate) file: Box<dyn $crate::File>,
            $(pub(crate) $field: $type),*
        }

        impl $crate::File for $name {
            fn read_at(&self, buf: &mut [u8], offset: u64) -> $crate::BackendResult<usize> {
                self.file.read_at(buf, offset)
            }

            fn write_at(&self, buf: &[u8], offset: u64) -> $crate::BackendResult<usize> {
                self.file.write_at(buf, offset)
            }

            fn bytes_at(
                &self,
                range: std::ops::Range<u64>,
            ) -> $crate::BackendResult<Option<bytes::Bytes>> {
                self.file.bytes_at(range)
            }

            fn set_len(&self, len: u64) -> $crate::BackendResult<()> {
                self.file.set_len(len)
            }

            fn metadata(&$m_self) -> $crate::BackendResult<$crate::Metadata> $metadata

            fn set_metadata(&self, change: &$crate::MetadataChange) -> $crate::BackendResult<()> {
                self.file.set_metadata(change)
            }

            fn sync(&self, scope: $crate::SyncScope) -> $crate::BackendResult<()> {
                self.file.sync(scope)
            }

            fn allocate(
                &self,
                what: $crate::Allocation,
                range: std::ops::Range<u64>,
            ) -> $crate::BackendResult<()> {
                self.file.allocate(what, range)
            }

            fn seek(&self, offset: u64, what: $crate::Seek) -> $crate::BackendResult<u64> {
                self.file.seek(offset, what)
            }

            fn link_to(&$l_self, $path: &$crate::VfsPath) -> $crate::BackendResult<()> $link_to

            #[cfg(unix)]
            fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
                self.file.as_fd()
            }
        }
    };
}
pub(crate) use wrap_file;
