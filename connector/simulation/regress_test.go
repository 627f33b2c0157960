package simulation

import (
	"testing"
	"time"

	"payersync/internal/longtest"
)

// covers F06, S1
func TestReplaysEndBeforeTheServiceForgets(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	p := calm()
	p.switches.HashMemory = minMemory
	o := play(t, p, tmpl, func(w *world) error {
		w.payers(1)
		for range 4 {
			w.once("create", faultLostResponse)
			w.once("create", faultLostResponse)
			w.syncs()
			w.do(w.wait(resendWithin - 2*time.Minute))
		}
		return w.heal()
	})
	if o.failed() {
		t.Error(o.report(60))
	}
}

// regressions are seeds that once broke an invariant, or the harness. They keep their meaning as long as draw
// and the steps do not change; after that they are ordinary seeds.
var regressions = []struct {
	seed uint64
	was  string
}{
	{1264, "a key that was removed without a webhook was never noticed"},
	{10113, "pages were taken to begin at 1 because page 0 had been empty for a moment"},
	{100122, "an update that arrived late undid a newer one, and nobody was told"},
	{200816, "a run that sent only an older create was complete"},
	{2104209, "an update of an address that a late older one undid was never noticed"},
	{7026429, "keys that were removed from every customer were never noticed"},
	{7109976, "a request for the link of a payer in conflict was open for ever, although its mandate had been seen"},
	{8008764, "a process that could not read a customer hid that another had found it gone"},
	{54238935384, "the doubt about a create was hidden with its row, once its key had been doubled"},
	{157257530430, "strangers added customers faster than the list was read, for ever"},
	{20045269, "a create was sent with new bytes after one whose key had been doubled before it was answered"},
	{20137579, "the same, with the key changed by others meanwhile"},
	{21011572, "an e-mail address that a late update took back was not noticed, because nobody looked for a day"},
	{30012263, "a run that sent only the older create of a record that it did not read was complete"},
	{31006847, "a create was sent at once after a restore, because a clock that was ahead had noted the first request"},
	{31125506, "nobody was told of a create that was taken up again after its key had been doubled"},
	{31129676, "what a ledger had sent before it was restored to an older state was never noticed"},
	{33005991, "the judge took a list whose first page was empty for a complete one, although the next was read"},
	{33129236, "nobody was told of a record whose key a customer under way had, of a record that is excluded by now"},
	{33129435, "a customer that is missing was only told to be changed by somebody else"},
	{34023135, "an update that somebody overwrote at once was forgotten when its record went back"},
	{36006511, "a lost request for the link of a payer in conflict was open for ever, of a record that is excluded by now"},
	{36101926, "the judge wanted a look after a request that was made while this one was under way"},
	{37034281, "a create could not be taken up again beside what was planned meanwhile, and no plan was made any more"},
	{301089, "a create was sent again at once after a restore in the same instant"},
	{63000554, "a create that was refused after it had been looked for was taken up again for good"},
	{474581085598, "a create that never left was sent a day later without new lists"},
	{20001395, "a create that was refused for its token was taken back, and sent with other bytes later"},
	{1014995819543, "a sweep showed the values of an update, and the class of the record went on as working"},
	{51001238, "a link came to be in conflict by a read, and a run was complete without a word of it"},
	{76017310, "nobody let updates go on after colleagues had edited two customers during the trials, and a restore forgot the edits"},
	{435734387255, "a link was asked for again without a look, because the fence of its freeze stopped the look"},
}

// amendedRegressions are such seeds with amends.
var amendedRegressions = []struct {
	seed uint64
	was  string
}{
	{30000011, "a created customer doubled a key, and the class of its payer stayed in step"},
	{67112, "a link whose answer had been overtaken was told lost for good"},
	{70070, "an adoption was left to a person for good, because the lists were older than a create that nobody had answered"},
	{70001880, "an update of a new customer that lost its key for a while was never sent again"},
	{274581084635, "a create that was to be sent again waited for ever for a person, because of customers that had lost its key"},
	{70003593, "nobody was told of an update without an answer, once the key of its customer had been off and back"},
	{71001334, "a record whose customer a person took away counted as held when a list showed its key twice"},
	{71002294, "a process that had lost its run linked a customer after the next run had left it to a person"},
	{71003478, "a record that had left the books was in conflict once another payer had got its key"},
	{74003768, "an unfit record was in conflict once another payer had got its key"},
	{73000526, "an update without a known outcome counted as in step, though people were told of it"},
	{95001691, "a link was in conflict without a word, once somebody else's customer had lost the key that doubled it"},
}

// troubledRegressions are such seeds with amends and every trouble.
var troubledRegressions = []struct {
	seed uint64
	was  string
}{
	{80010312, "the judge wanted a key that a read had shown to be gone, because a list from before it was kept later"},
	{95002168, "the judge wanted new lists after a create whose token had been refused"},
	{95002053, "the judge wanted a clock that was put ahead to measure whether a create was still under way when its key was passed on"},
	{95006452, "a customer made seconds ago was missing, because a clock minutes behind had been put right and reads lagged"},
}

func TestSeedsWithTroublesThatFailedOnceHold(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	for _, r := range troubledRegressions {
		p := draw(r.seed).onFile()
		p.troubles = nil // whatever the command line draws
		p.drawTroubles(troubleKinds)
		if o := play(t, p.amended(), tmpl, randomStory); o.failed() {
			t.Errorf("again: %s\n%s", r.was, o.report(60))
		}
	}
}

func TestSeedsWithAmendsThatFailedOnceHold(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	for _, r := range amendedRegressions {
		if o := play(t, draw(r.seed).onFile().amended(), tmpl, randomStory); o.failed() {
			t.Errorf("again: %s\n%s", r.was, o.report(60))
		}
	}
}

func TestSeedsThatFailedOnceHold(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	some := longtest.Sample(regressions, 8)
	each(t, len(some), func(t *testing.T, i int) bool {
		o := play(t, draw(some[i].seed).onFile(), tmpl, randomStory)
		if o.failed() {
			t.Errorf("again: %s\n%s", some[i].was, o.report(60))
		}
		return true
	})
}

// covers S13
func TestACreateTakenUpAfterARestoreIsNoNewOne(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	o := play(t, calm(), tmpl, func(w *world) error {
		w.payers(1)
		w.once("create", faultLostRequest)
		w.once("create", faultLostRequest)
		w.syncs()
		w.beside("R1")
		w.beside("R1")
		w.syncs() // it is held, because its key is doubled
		for _, c := range w.service.Customers() {
			w.do(w.service.Delete(c.ID))
		}
		w.do(w.takeBackup())
		w.sweeps()
		w.do(w.restoreBackup())
		w.do(w.wait(time.Hour))
		w.syncs()
		if len(w.service.Customers()) != 1 {
			t.Error("the create was not taken up again")
		}
		return w.heal()
	})
	if o.failed() {
		t.Error(o.report(60))
	}
}

// covers F05, S3
func TestARecordThatCameBackIsSentAnew(t *testing.T) {
	tmpl := newTemplate(t, memoryDir(t))
	for _, leaves := range []bool{true, false} {
		o := play(t, calm(), tmpl, func(w *world) error {
			w.payers(1)
			w.once("create", faultLostRequest)
			w.once("create", faultLostRequest)
			w.syncs()
			f := w.books.fields("R1")
			if leaves {
				f.Group, w.oracle.left["R1"] = "supplier", time.Now()
				w.putRecord("R1", f)
			}
			w.do(w.wait(time.Hour))
			if leaves {
				w.syncs() // lists prove that it did not arrive, and nobody asks for it
			}
			f.Group, f.Name = "payer", "Payer R1 v2"
			w.putRecord("R1", f)
			w.syncs()
			return w.heal()
		})
		if o.failed() {
			t.Error(o.report(60))
		}
	}
}
