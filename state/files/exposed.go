package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Exposed returns the mode of an opened file if other users of this machine may read or write it,
// and 0 otherwise.
//
// It accepts two common ways of passing secrets to a service. Orchestrators and systemd mount
// files, often with mode 0444, at /run/secrets or on a read-only file system in memory. The other
// way is a file of root with mode 0640 and this process's own group.
func Exposed(f *os.File) (fs.FileMode, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	mode := info.Mode().Perm()
	if !info.Mode().IsRegular() || mode&0o077 == 0 || mounted(f) || ofPackage(info) {
		return 0, nil
	}
	return mode, nil
}

// mounted reports whether the file was mounted as a secret.
func mounted(f *os.File) bool {
	path, err := filepath.Abs(f.Name())
	return err == nil && strings.HasPrefix(path, "/run/secrets/") || inSealedMemory(f)
}

// ofPackage reports whether the file is root's and readable for this process by its own group,
// exclusive to a service account.
func ofPackage(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && os.Geteuid() != 0 && int(st.Gid) == os.Getegid() && info.Mode().Perm()&^0o640 == 0
}
