package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// folderFlags open a folder to look names up in, which needs no right to read it.
const folderFlags = unix.O_PATH | unix.O_DIRECTORY

// inSealedMemory reports whether the file lies on a read-only file system in memory, the place of
// secrets in Docker, Kubernetes and systemd.
func inSealedMemory(f *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false
	}
	memory := st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
	return memory && st.Flags&unix.ST_RDONLY != 0
}
