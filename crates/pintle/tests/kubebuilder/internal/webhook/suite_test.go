package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	v1 "example.com/paint/api/v1"
	v2 "example.com/paint/api/v2"
)

var api client.Client

// warnings collects what the API server warns of.
type warnings struct {
	sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) contain(text string) bool {
	w.Lock()
	defer w.Unlock()
	return strings.Contains(strings.Join(w.said, "\n"), text)
}

var warned warnings

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run installs the kind and its webhooks in the cluster of KUBECONFIG and starts the manager, as kubebuilder's suites do.
func run(m *testing.M) (int, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			return 0, err
		}
	}
	there := true
	environment := &envtest.Environment{
		UseExistingCluster: &there,
		Scheme:             scheme,
		CRDInstallOptions: envtest.CRDInstallOptions{
			Scheme: scheme, Paths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfPathMissing: true,
		},
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join("..", "..", "config", "webhook")}},
	}
	config, err := environment.Start()
	if err != nil {
		return 0, err
	}
	defer func() { _ = environment.Stop() }()
	options := &environment.WebhookInstallOptions
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir,
		}),
	})
	if err != nil {
		return 0, err
	}
	if err := SetupWithManager(mgr); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	address := net.JoinHostPort(options.LocalServingHost, fmt.Sprint(options.LocalServingPort))
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
	if err != nil {
		return 0, err
	}
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = &warned
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func tin(name string, litres int32) *v1.Tin {
	return &v1.Tin{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1.TinSpec{Litres: litres}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestATinIsRedUnlessItSaysAnother(t *testing.T) {
	ctx := context.Background()
	plain := tin("plain", 2)
	must(t, api.Create(ctx, plain))
	if plain.Spec.Colour != "red" {
		t.Fatalf("the tin is %q", plain.Spec.Colour)
	}
	blue := tin("blue", 2)
	blue.Spec.Colour = "blue"
	must(t, api.Create(ctx, blue))
	if blue.Spec.Colour != "blue" {
		t.Fatalf("the tin is %q", blue.Spec.Colour)
	}
}

func TestAWrongTinIsRefusedWithItsField(t *testing.T) {
	ctx := context.Background()
	err := api.Create(ctx, tin("empty", 0))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.litres: Invalid value: 0: a tin holds something") {
		t.Fatal(err)
	}
	opened := tin("opened", 2)
	must(t, api.Create(ctx, opened))
	opened.Status.Opened = true
	must(t, api.Status().Update(ctx, opened))
	opened.Spec.Litres = 3
	if err := api.Update(ctx, opened); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "has been opened") {
		t.Fatal(err)
	}
	kept := tin("kept", 2)
	kept.Labels = map[string]string{"keep": "true"}
	must(t, api.Create(ctx, kept))
	if err := api.Delete(ctx, kept); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the tin is kept") {
		t.Fatal(err)
	}
	must(t, api.Create(ctx, tin("heavy", 200)))
	if !warned.contain("nobody can lift this tin") {
		t.Fatalf("%q", warned.said)
	}
}

func TestATinIsTheSameInBothVersions(t *testing.T) {
	ctx := context.Background()
	must(t, api.Create(ctx, tin("both", 5)))
	var other v2.Tin
	key := client.ObjectKey{Namespace: "default", Name: "both"}
	must(t, api.Get(ctx, key, &other))
	if other.Spec.Content != "5 l of red" {
		t.Fatalf("%q", other.Spec.Content)
	}
	other.Spec.Content = "7 l of green"
	must(t, api.Update(ctx, &other))
	var stored v1.Tin
	must(t, api.Get(ctx, key, &stored))
	if stored.Spec != (v1.TinSpec{Litres: 7, Colour: "green"}) {
		t.Fatalf("%+v", stored.Spec)
	}
	// Defaulting and validation count for writes in either version.
	empty := &v2.Tin{ObjectMeta: metav1.ObjectMeta{Name: "empty-too", Namespace: "default"}, Spec: v2.TinSpec{Content: "0 l of red"}}
	if err := api.Create(ctx, empty); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	nonsense := &v2.Tin{ObjectMeta: metav1.ObjectMeta{Name: "nonsense", Namespace: "default"}, Spec: v2.TinSpec{Content: "much"}}
	if err := api.Create(ctx, nonsense); err == nil || !strings.Contains(err.Error(), "is not written as") {
		t.Fatal(err)
	}
	var all v2.TinList
	must(t, api.List(ctx, &all, client.InNamespace("default")))
	if len(all.Items) == 0 || !strings.Contains(all.Items[0].Spec.Content, " l of ") {
		t.Fatalf("%+v", all.Items)
	}
}
