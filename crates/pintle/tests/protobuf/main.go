// A typed client that speaks nothing but protobuf: every built-in kind is listed, watched, created, patched and read.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// Creating one takes a key of a running Pod and its signature: it is listed and watched only.
const onlyRead = "podcertificaterequests"

// What is created of each kind; its name is added.
//
//go:embed objects.json
var objects []byte

// A kind as discovery has it.
type kind struct {
	of       schema.GroupVersion
	resource metav1.APIResource
}

func main() {
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiregistration.AddToScheme} {
		must(add(scheme.Scheme))
	}
	samples := map[string]json.RawMessage{}
	must(json.Unmarshal(objects, &samples))
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err)
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	kinds := discover(config)
	failed := 0
	for _, kind := range kinds {
		key := kind.of.String() + "/" + kind.resource.Name
		sample, known := samples[key]
		if !known {
			sample = samples[kind.of.Group+"/"+kind.resource.Name]
		}
		if sample == nil && kind.resource.Name != onlyRead {
			fmt.Println(key, "has no object to create")
			failed++
			continue
		}
		if err := check(config, kind, sample); err != nil {
			fmt.Println(key, err)
			failed++
		}
	}
	if failed > 0 || len(kinds) < 50 {
		fmt.Println(failed, "of", len(kinds), "kinds failed")
		os.Exit(1)
	}
	fmt.Println(len(kinds), "kinds passed")
}

// Every built-in kind that can be created, listed, watched and patched. Discovery is asked in protobuf, too.
func discover(config *rest.Config) []kind {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	must(err)
	groups, err := client.ServerGroups()
	must(err)
	var kinds []kind
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if !strings.HasSuffix(group.Name, ".k8s.io") && strings.Contains(group.Name, ".") || group.Name == "metrics.k8s.io" {
				continue
			}
			resources, err := client.ServerResourcesForGroupVersion(version.GroupVersion)
			must(err)
			of, err := schema.ParseGroupVersion(version.GroupVersion)
			must(err)
			for _, resource := range resources.APIResources {
				has := func(verb string) bool { return slices.Contains(resource.Verbs, verb) }
				if has("create") && has("list") && has("watch") && has("patch") && has("get") && has("delete") {
					kinds = append(kinds, kind{of, resource})
				}
			}
		}
	}
	return kinds
}

func check(base *rest.Config, kind kind, sample []byte) error {
	config := *base
	config.GroupVersion = &kind.of
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.APIPath = "/apis"
	if kind.of.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientFor(&config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	of := func(name string) runtime.Object {
		object, err := scheme.Scheme.New(kind.of.WithKind(name))
		must(err)
		return object
	}
	list := of(kind.resource.Kind + "List")
	request := func(request *rest.Request) *rest.Request {
		return request.NamespaceIfScoped("default", kind.resource.Namespaced).Resource(kind.resource.Name)
	}
	if err := request(client.Get()).Do(ctx).Into(list); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	listed, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	options := &metav1.ListOptions{Watch: true, ResourceVersion: listed.GetResourceVersion()}
	events, err := request(client.Get()).VersionedParams(options, scheme.ParameterCodec).Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer events.Stop()
	if sample == nil {
		return nil
	}

	object := of(kind.resource.Kind)
	if err := json.Unmarshal(sample, object); err != nil {
		return err
	}
	about, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if about.GetName() == "" {
		about.SetName("typed-" + kind.of.Version)
	}
	name := about.GetName()
	created := of(kind.resource.Kind)
	if err := request(client.Post()).Body(object).Do(ctx).Into(created); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer request(client.Delete()).Name(name).Do(context.Background())
	if err := expect(ctx, events, watch.Added, name, created); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"typed.example.com/patched":"yes"}}}`)
	patched := of(kind.resource.Kind)
	if err := request(client.Patch(types.MergePatchType)).Name(name).Body(patch).Do(ctx).Into(patched); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if err := expect(ctx, events, watch.Modified, name, patched); err != nil {
		return err
	}
	// Loops write, too: both are read again until they are of one version.
	for {
		read := of(kind.resource.Kind)
		if err := request(client.Get()).Name(name).Do(ctx).Into(read); err != nil {
			return fmt.Errorf("get: %w", err)
		}
		inJSON, err := sameInJSON(ctx, base, kind, name)
		if err != nil {
			return fmt.Errorf("get as JSON: %w", err)
		}
		version, _ := meta.NewAccessor().ResourceVersion(read)
		if other, _ := meta.NewAccessor().ResourceVersion(inJSON); other != version {
			continue
		}
		if !equality.Semantic.DeepEqual(read, inJSON) {
			return fmt.Errorf("protobuf and JSON differ:\n%+v\n%+v", read, inJSON)
		}
		return nil
	}
}

// The object as a client of JSON reads it.
func sameInJSON(ctx context.Context, base *rest.Config, kind kind, name string) (runtime.Object, error) {
	config := *base
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.GroupVersion = &kind.of
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.APIPath = "/apis"
	if kind.of.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientFor(&config)
	if err != nil {
		return nil, err
	}
	object, err := scheme.Scheme.New(kind.of.WithKind(kind.resource.Kind))
	if err != nil {
		return nil, err
	}
	request := client.Get().NamespaceIfScoped("default", kind.resource.Namespaced).Resource(kind.resource.Name).Name(name)
	err = request.Do(ctx).Into(object)
	// What an object is stands around its message, so an object inside another has it in JSON only.
	if set, is := object.(*apps.StatefulSet); is {
		for i := range set.Spec.VolumeClaimTemplates {
			set.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{}
		}
	}
	return object, err
}

// Waits for the event that shows the object as the write answered it. Other events are other writers'.
func expect(ctx context.Context, events watch.Interface, wanted watch.EventType, name string, written runtime.Object) error {
	version, err := meta.NewAccessor().ResourceVersion(written)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no %s event of version %s came", wanted, version)
		case event, more := <-events.ResultChan():
			if !more {
				return fmt.Errorf("the watch ended before its %s event", wanted)
			}
			if event.Type == watch.Error {
				return fmt.Errorf("the watch: %+v", event.Object)
			}
			about, err := meta.Accessor(event.Object)
			if err != nil {
				return err
			}
			if about.GetName() != name || about.GetResourceVersion() != version {
				continue
			}
			if event.Type != wanted || !equality.Semantic.DeepEqual(event.Object, written) {
				return fmt.Errorf("%s shows\n%+v\nwhere the write answered\n%+v", event.Type, event.Object, written)
			}
			return nil
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
