//go:build !linux

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// folderFlags open a folder to look names up in.
const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY

// inSealedMemory cannot tell on this system.
func inSealedMemory(*os.File) bool { return false }
