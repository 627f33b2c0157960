package deploy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// goreleaser's own strict reader knows every key of the release's configuration.
func TestGoreleaserKnowsEveryKeyOfTheRelease(t *testing.T) {
	t.Parallel()
	release, err := config.Load("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range release.Builds {
		if !slices.Contains(b.Flags, "-trimpath") || !slices.Contains(b.Env, "CGO_ENABLED=0") ||
			b.ModTimestamp != "{{ .CommitTimestamp }}" {
			t.Errorf("the build of %s cannot be repeated: %v %v %q", b.ID, b.Flags, b.Env, b.ModTimestamp)
		}
	}
	if release.Checksum.Algorithm != "sha256" || len(release.SBOMs) == 0 {
		t.Errorf("checksums by %q, %d bills of materials", release.Checksum.Algorithm, len(release.SBOMs))
	}
	for _, p := range release.NFPMs {
		for _, c := range p.Contents {
			if strings.HasPrefix(c.Source, "configs/") {
				if found, err := filepath.Glob(filepath.Join("../..", c.Source)); err != nil || len(found) == 0 {
					t.Errorf("the package holds %s, which is not there: %v", c.Source, err)
				}
			}
		}
	}
}
