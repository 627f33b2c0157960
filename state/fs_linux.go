package state

import (
	"fmt"
	"syscall"
)

// networkFS names the file systems without reliable SQLite locks or write-ahead log (fault F62), by
// the magic number of statfs(2).
var networkFS = map[int64]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x01021997: "9P",
	0x65735546: "FUSE (also virtiofs)",
	0x5346414F: "AFS",
	0x00C36400: "Ceph",
}

func refuseNetworkFS(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return &OpenError{Path: dir, Why: err.Error(), Next: "Check that the folder exists."}
	}
	// The field's width differs between machines; the magic numbers fit 32 bits.
	return refuseFS(dir, int64(st.Type)&0xFFFFFFFF)
}

func refuseFS(dir string, magic int64) error {
	name, network := networkFS[magic]
	if !network {
		return nil
	}
	return &OpenError{
		Path: dir, Why: fmt.Sprintf("the folder lies on a network file system (%s), where a power cut can damage it", name),
		Next: "Put the ledger on a local disk or a named volume.",
	}
}
