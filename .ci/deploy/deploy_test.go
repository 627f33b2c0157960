// Package deploy checks the files of configs/deploy and the release's configuration with their readers' own
// parsers. It is a separate module, so none of these parsers becomes a dependency of the product.
package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../configs/deploy"

// imagesUser is the user whom the image runs as.
const imagesUser = 65532

func compose(t *testing.T, name, setup string) *types.Project {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  filepath.Dir(file),
		ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: types.Mapping{setup: t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestTheComposeFileGivesTheServiceItsVolumeItsSecretsAndNothingElse(t *testing.T) {
	t.Parallel()
	s, err := compose(t, "compose.yaml", "PAYERSYNC_SETUP").GetService("payersync")
	if err != nil {
		t.Fatal(err)
	}
	if !s.ReadOnly || s.User != "65532:65532" || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 ||
		s.Privileged ||
		!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
		t.Errorf("read-only %v, user %s, capabilities -%v +%v, privileged %v, %v", s.ReadOnly, s.User, s.CapDrop, s.CapAdd,
			s.Privileged, s.SecurityOpt)
	}
	if s.MemLimit != 512<<20 || s.PidsLimit == 0 || s.CPUS == 0 || s.StopGracePeriod == nil ||
		s.StopGracePeriod.String() != "30s" {
		t.Errorf("memory %d, processes %d, processors %v, %v to stop", s.MemLimit, s.PidsLimit, s.CPUS, s.StopGracePeriod)
	}
	for _, v := range s.Volumes {
		ours := v.Target == "/var/lib/payersync" || v.Target == "/var/lib/payersync-backups"
		if !ours && !v.ReadOnly {
			t.Errorf("%s may be written", v.Target)
		}
		if ours && v.Type != types.VolumeTypeVolume {
			t.Errorf("%s is a %s, not a named volume", v.Target, v.Type)
		}
	}
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("port %d is open to others than the proxy on this machine", p.Target)
		}
	}
	var secrets []string
	for _, secret := range s.Secrets {
		secrets = append(secrets, secret.Source)
	}
	if want := passed(t); !slices.Equal(secrets, want) {
		t.Errorf("it is passed %v, and what runs under systemd %v", secrets, want)
	}
	health, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	check := `CMD ["` + strings.Join(s.HealthCheck.Test[1:], `", "`) + `"]`
	if !strings.Contains(string(health), check) {
		t.Errorf("the health check %s is not the image's", check)
	}
}

// Nodes differ in their names and the port of this machine, and the first one can sign in as the owner of the tables. They
// have nothing else of a database but the way to it; the databases differ in their names.
func TestTheComposeFileOfNodesGivesEachWhatItNeedsAlone(t *testing.T) {
	t.Parallel()
	project := compose(t, "nodes/compose.yaml", "PAYERSYNC_NODES")
	ports := map[string]bool{}
	for _, name := range []string{"node", "node2", "node3"} {
		s, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if !s.ReadOnly || s.User != "65532:65532" || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 ||
			s.Privileged ||
			!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.MemLimit != 512<<20 {
			t.Errorf("%s: read-only %v, user %s, capabilities -%v +%v, privileged %v, %v, memory %d", name, s.ReadOnly, s.User,
				s.CapDrop, s.CapAdd, s.Privileged, s.SecurityOpt, s.MemLimit)
		}
		if s.Hostname != name {
			t.Errorf("%s: it calls itself %s", name, s.Hostname)
		}
		var secrets []string
		for _, secret := range s.Secrets {
			secrets = append(secrets, secret.Source)
		}
		settings, passed := "/node.yaml", []string{"database", "kek", "ca.crt"}
		if name == "node" {
			settings, passed = "/first.yaml", []string{"database", "owner", "kek", "ca.crt"}
		}
		if len(s.Volumes) != 2 || !s.Volumes[0].ReadOnly || !strings.HasSuffix(s.Volumes[0].Source, settings) ||
			!slices.Equal(secrets, passed) {
			t.Errorf("%s: it has %v and %v", name, s.Volumes, secrets)
		}
		if shared := s.Volumes[len(s.Volumes)-1]; shared.Target != "/srv/payersync" ||
			!strings.HasSuffix(shared.Source, "/shared") || shared.ReadOnly {
			t.Errorf("%s: the folder that nodes share is %+v", name, shared)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" || ports[p.Published] {
				t.Errorf("%s: port %s is open to others, or another node's", name, p.Published)
			}
			ports[p.Published] = true
		}
	}
	for _, name := range []string{"database1", "database2"} {
		s, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if of := s.Environment["NAME"]; of == nil || *of != name || *s.Environment["PRIMARY"] != "database1" ||
			len(s.Ports) > 0 {
			t.Errorf("%s: it is called %v, follows %v, and is reached at %v", name, of, s.Environment["PRIMARY"], s.Ports)
		}
	}
	if begin := project.Configs["begin"].Content; !strings.Contains(begin, `"$PGDATA"`) || strings.Contains(begin, "$$") {
		t.Errorf("what a database begins with is read as\n%s", begin)
	}
	// A container that takes another's place has the volume and not the home of the one before.
	if begin := project.Configs["begin"].Content; strings.Index(begin, ">~/.pgpass") > strings.Index(begin, "PG_VERSION") {
		t.Error("a standby whose container was made anew is given no password to follow the primary with")
	}
}

// passed returns the secrets that the systemd unit is passed.
func passed(t *testing.T) (secrets []string) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(folder, "systemd/payersync@.service"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if credential, is := strings.CutPrefix(line, "LoadCredential="); is && !strings.Contains(line, ".yaml") {
			name, _, _ := strings.Cut(credential, ":")
			secrets = append(secrets, name)
		}
	}
	return secrets
}

// objects decodes every document of the manifests. A field unknown to Kubernetes, or an object of an
// unexpected kind, is an error.
func objects(t *testing.T) (all []any) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "kubernetes/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests were found: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var kind struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(document, &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			known := map[string]any{
				"v1 PersistentVolumeClaim": &core.PersistentVolumeClaim{}, "v1 Service": &core.Service{},
				"v1 ServiceAccount":  &core.ServiceAccount{},
				"apps/v1 Deployment": &apps.Deployment{}, "batch/v1 CronJob": &batch.CronJob{},
				"networking.k8s.io/v1 NetworkPolicy": &network.NetworkPolicy{},
				"policy/v1 PodDisruptionBudget":      &policy.PodDisruptionBudget{},
			}
			object, ok := known[kind.APIVersion+" "+kind.Kind]
			if !ok {
				t.Fatalf("%s: %s %s is not expected here", file, kind.APIVersion, kind.Kind)
			}
			if err := yaml.UnmarshalStrict(document, object); err != nil {
				t.Errorf("%s, %s: %v", file, kind.Kind, err)
			}
			all = append(all, object)
		}
	}
	return all
}

// pods returns what every object would run.
func pods(t *testing.T) map[string]core.PodSpec {
	t.Helper()
	pods := map[string]core.PodSpec{}
	for _, object := range objects(t) {
		switch o := object.(type) {
		case *apps.Deployment:
			pods[o.Name] = o.Spec.Template.Spec
		case *batch.CronJob:
			pods[o.Name] = o.Spec.JobTemplate.Spec.Template.Spec
		}
	}
	if len(pods) != 4 {
		t.Fatalf("%d kinds of pods were found: this test has lost its subject", len(pods))
	}
	return pods
}

// The restricted pod security standard, a root that cannot be written, and no token of the cluster.
func TestEveryPodIsRestrictedAndOwnsNothingButTheLedger(t *testing.T) {
	t.Parallel()
	for name, p := range pods(t) {
		s := p.SecurityContext
		if s == nil || !is(s.RunAsNonRoot) || s.SeccompProfile == nil ||
			s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault ||
			s.RunAsUser == nil || *s.RunAsUser != imagesUser || s.FSGroup == nil || *s.FSGroup != imagesUser {
			t.Errorf("%s: the pod is not restricted: %v", name, s)
		}
		if s.FSGroupChangePolicy == nil || *s.FSGroupChangePolicy != core.FSGroupChangeOnRootMismatch {
			t.Errorf("%s: every start opens the ledger to the group, and payersync refuses it then", name)
		}
		if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken || p.HostNetwork || p.HostPID ||
			p.HostIPC {
			t.Errorf("%s: the pod has something of the cluster or of the host", name)
		}
		if p.TerminationGracePeriodSeconds == nil || *p.TerminationGracePeriodSeconds < 30 {
			t.Errorf("%s: a stop is cut short", name)
		}
		volumes := map[string]core.Volume{}
		for _, v := range p.Volumes {
			volumes[v.Name] = v
		}
		for _, c := range p.Containers {
			sc := c.SecurityContext
			if sc == nil || is(sc.Privileged) || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation ||
				!is(sc.ReadOnlyRootFilesystem) ||
				sc.Capabilities == nil || !slices.Equal(sc.Capabilities.Drop, []core.Capability{"ALL"}) ||
				len(sc.Capabilities.Add) > 0 {
				t.Errorf("%s: the container is not restricted: %v", name, sc)
			}
			if c.Resources.Limits.Memory().Value() != 512<<20 {
				t.Errorf("%s: its memory is limited to %s", name, c.Resources.Limits.Memory())
			}
			for _, e := range c.Env {
				if e.Name != "XDG_RUNTIME_DIR" || volumes["accounts"].EmptyDir.Medium != core.StorageMediumMemory {
					t.Errorf("%s: %s is in the environment; secrets are files, and those of accounts lie in memory", name, e.Name)
				}
			}
			for _, m := range c.VolumeMounts {
				v, ok := volumes[m.Name]
				if !ok {
					t.Errorf("%s: the volume %s is not there", name, m.Name)
				}
				if written := v.PersistentVolumeClaim != nil || v.EmptyDir != nil; !written && !m.ReadOnly {
					t.Errorf("%s: %s may be written", name, m.MountPath)
				}
			}
		}
	}
}

func is(b *bool) bool { return b != nil && *b }

// A ledger has one owner at a time, whatever is rolled out, late or run twice.
func TestNoTwoPodsHaveTheLedgerAtATime(t *testing.T) {
	t.Parallel()
	for _, object := range objects(t) {
		switch o := object.(type) {
		case *core.PersistentVolumeClaim:
			mode := core.ReadWriteOncePod
			if o.Name == "payersync-shared" { // the journals of letters of all nodes; it holds no ledger
				mode = core.ReadWriteMany
			}
			if !slices.Equal(o.Spec.AccessModes, []core.PersistentVolumeAccessMode{mode}) {
				t.Errorf("the volume %s is given to %v", o.Name, o.Spec.AccessModes)
			}
		case *apps.Deployment:
			if nodes := o.Name == "payersync-node"; !nodes &&
				(*o.Spec.Replicas != 1 || o.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType) {
				t.Errorf("there are %v replicas, replaced by %s", o.Spec.Replicas, o.Spec.Strategy.Type)
			} else if nodes && (*o.Spec.Replicas < 2 || o.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0) {
				t.Errorf("of %d nodes there are fewer during a rollout: %v", *o.Spec.Replicas, o.Spec.Strategy.RollingUpdate)
			}
			c := o.Spec.Template.Spec.Containers[0]
			if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Error("a pod is killed for what only makes it unready, or the other way round")
			}
			for key, value := range o.Spec.Selector.MatchLabels {
				if o.Spec.Template.Labels[key] != value {
					t.Errorf("the deployment does not select its own pods by %s", key)
				}
			}
		case *batch.CronJob:
			if o.Spec.ConcurrencyPolicy != batch.ForbidConcurrent ||
				o.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
				t.Errorf("%s: runs overlap, or start again by themselves", o.Name)
			}
			rules := o.Spec.JobTemplate.Spec.PodFailurePolicy.Rules
			if len(rules) == 0 || rules[0].Action != batch.PodFailurePolicyActionFailJob ||
				!slices.Equal(rules[0].OnExitCodes.Values, []int32{2, 3, 4, 7}) {
				t.Errorf("%s: what only a person settles is tried again: %v", o.Name, rules)
			}
		}
	}
}
