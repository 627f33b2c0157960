package state

import (
	"errors"
	"strings"
	"testing"
)

// covers F62
func TestNetworkFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		magic   int64
		refused string
	}{
		{"nfs", 0x6969, "NFS"}, {"smb", 0x517B, "SMB"}, {"cifs", 0xFF534D42, "CIFS"}, {"smb2", 0xFE534D42, "SMB2"},
		{"9p of a virtual machine", 0x01021997, "9P"}, {"fuse and virtiofs", 0x65735546, "virtiofs"},
		{"afs", 0x5346414F, "AFS"}, {"ceph", 0x00C36400, "Ceph"},
		{"ext4", 0xEF53, ""}, {"xfs", 0x58465342, ""}, {"btrfs", 0x9123683E, ""}, {"tmpfs", 0x01021994, ""},
		{"overlay of a container", 0x794C7630, ""}, {"zfs", 0x2FC12FC1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := refuseFS("/data", tt.magic)
			var refusal *OpenError
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && !errors.As(err, &refusal):
				t.Errorf("got %v, want a refusal", err)
			case tt.refused != "" && !strings.Contains(refusal.Error(), tt.refused):
				t.Errorf("the refusal %q does not name %s", refusal, tt.refused)
			}
		})
	}
}

func TestALocalFolderIsAccepted(t *testing.T) {
	t.Parallel()
	if err := refuseNetworkFS(t.TempDir()); err != nil {
		t.Error(err)
	}
}
