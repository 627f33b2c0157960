package main

import (
	"os"
	"path/filepath"
	"payersync/connector/admin"
	"strings"
	"syscall"
	"testing"
)

// somebody is an account that is not root's.
const somebody = 65534

// besideAService gives the world's folder to a service account.
func (w *world) besideAService() {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("only root may give a file away; run this test as root")
	}
	for _, name := range []string{"", "mapping.yaml", "payersync.db"} {
		if err := os.Chown(w.path(name), somebody, somebody); err != nil {
			w.t.Fatal(err)
		}
	}
}

// covers F112
func TestRootsRollbackWritesThroughNoLinkAndLeavesTheFileToItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, people(2))
	w.expect(exitDone, "sync")
	first := decode[historyReport](t, w.expect(exitDone, "mapping", "history", "--output", "json")).FileHash
	before := w.read("mapping.yaml")
	w.edit("mapping.yaml", "name: trim(Name)\n  people", "name: upper(Name)\n  people")
	edited := w.read("mapping.yaml")
	w.besideAService()
	target := filepath.Join(t.TempDir(), "cron.yaml")
	if err := os.WriteFile(target, []byte("root's own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := "mapping.before-" + hashOf([]byte(edited))[:shortHash] + ".yaml"
	if err := os.Symlink(target, w.path(kept)); err != nil {
		t.Fatal(err)
	}
	w.expect(exitDone, "mapping", "rollback", first[:6])
	info, err := os.Lstat(w.path("mapping.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if w.read("mapping.yaml") != before || w.read(kept) != edited || info.Sys().(*syscall.Stat_t).Uid != somebody {
		t.Errorf("the mapping is\n%s\nand was\n%s\nand belongs to %+v", w.read("mapping.yaml"), w.read(kept), info.Sys())
	}

	// Now the mapping itself is a link, to a file that root alone may read.
	if err := os.Remove(w.path("mapping.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, w.path("mapping.yaml")); err != nil {
		t.Fatal(err)
	}
	r := w.expect(exitFailed, "mapping", "rollback", first[:6])
	if !strings.Contains(r.errOut, "symbolic link") {
		t.Errorf("the refusal says: %s", r.errOut)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "root's own\n" {
		t.Errorf("the link was written through: %q (%v)", data, err)
	}
}

// covers F112
func TestInitAsRootWritesBehindNoLinkOfSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give a link away; run this test as root")
	}
	dir, target := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "acme")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(link, somebody, somebody); err != nil {
		t.Fatal(err)
	}
	r := newWorld(t, nil).run("init", link)
	if r.code != exitFailed || !strings.Contains(r.errOut, "symbolic link") {
		t.Errorf("init ended with %d: %s", r.code, r.errOut)
	}
	if made, err := os.ReadDir(target); err != nil || len(made) > 0 {
		t.Errorf("%v was made behind the link (%v)", made, err)
	}
}

func TestArgumentsThatAreNoTextAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, text := range []string{"K\xf6ln", "C\x001", "\xff"} {
		r := w.run("attention", "close", "C1", "--reason", text)
		if r.code != exitUsage ||
			!strings.Contains(r.errOut, "argument 5 has characters that are no text; write it in UTF-8") {
			t.Errorf("%q ended with %d: %s", text, r.code, r.errOut)
		}
	}
}

func TestAReasonIsRefusedThatIsLongerThanThePagesTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, args := range [][]string{{"attention", "close", "C1", "--reason"}, {"mandates", "cancel", "C1", "--reason"},
		{"letters", "stop", "C1", "--note"}} {
		r := w.run(append(args, strings.Repeat("ü", admin.LongestReason+1))...)
		if r.code != exitUsage || !strings.Contains(r.errOut, "a reason has at most 500 letters; say it shorter") {
			t.Errorf("%s ended with %d: %s", args, r.code, r.errOut)
		}
	}
}
