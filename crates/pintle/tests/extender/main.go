// A scheduler extender as people write them, with the types that Kubernetes publishes for it: it filters, scores, has a say
// in preemption and binds. A test tells it over HTTP what to answer and asks it how often it was called.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	extender "k8s.io/kube-scheduler/extender/v1"
)

// slowness is longer than any scheduler of the test waits.
const slowness = 5 * time.Second

// orders say what the extender answers.
type orders struct {
	// Mode is "", "slow", "unwell" or "lies".
	Mode string
	// Refused are nodes that the filter fails, Hopeless are those that it fails whoever leaves them.
	Refused, Hopeless []string
	// Preferred gets the best score.
	Preferred string
	// Only is the one node on which Pods may be preempted; empty for all.
	Only string
}

type program struct {
	kubeconfig string
	mutex      sync.Mutex
	orders     orders
	calls      map[string]int
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	it := &program{kubeconfig: os.Args[1], calls: map[string]int{}}
	http.HandleFunc("/orders", it.takeOrders)
	http.HandleFunc("/calls", it.showCalls)
	handle(it, "filter", it.filter)
	handle(it, "prioritize", it.prioritize)
	handle(it, "preempt", it.preempt)
	handle(it, "bind", it.bind)
	fmt.Println(listener.Addr())
	fmt.Fprintln(os.Stderr, http.Serve(listener, nil))
}

// handle decodes the arguments of a verb and encodes its answer.
func handle[Arguments, Answer any](it *program, verb string, answer func(orders, *Arguments) Answer) {
	http.HandleFunc("/"+verb, func(writer http.ResponseWriter, request *http.Request) {
		it.mutex.Lock()
		it.calls[verb]++
		given := it.orders
		it.mutex.Unlock()
		var arguments Arguments
		decoder := json.NewDecoder(request.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&arguments); err != nil {
			fmt.Fprintln(os.Stderr, verb, err)
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		switch given.Mode {
		case "slow":
			time.Sleep(slowness)
		case "unwell":
			http.Error(writer, "unwell", http.StatusInternalServerError)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(answer(given, &arguments))
	})
}

func (it *program) takeOrders(writer http.ResponseWriter, request *http.Request) {
	var given orders
	if err := json.NewDecoder(request.Body).Decode(&given); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	it.mutex.Lock()
	defer it.mutex.Unlock()
	it.orders, it.calls = given, map[string]int{}
}

func (it *program) showCalls(writer http.ResponseWriter, _ *http.Request) {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	_ = json.NewEncoder(writer).Encode(it.calls)
}

func contains(names []string, name string) bool {
	for _, known := range names {
		if known == name {
			return true
		}
	}
	return false
}

func (it *program) filter(given orders, arguments *extender.ExtenderArgs) *extender.ExtenderFilterResult {
	result := &extender.ExtenderFilterResult{
		FailedNodes:                extender.FailedNodesMap{},
		FailedAndUnresolvableNodes: extender.FailedNodesMap{},
	}
	passes := func(name string) bool {
		switch {
		case contains(given.Hopeless, name):
			result.FailedAndUnresolvableNodes[name] = "the extender never wants it"
		case contains(given.Refused, name):
			result.FailedNodes[name] = "the extender does not want it"
		default:
			return true
		}
		return false
	}
	if arguments.NodeNames != nil {
		names := []string{}
		for _, name := range *arguments.NodeNames {
			if passes(name) {
				names = append(names, name)
			}
		}
		if given.Mode == "lies" {
			names = append(names, "node-of-dreams")
		}
		result.NodeNames = &names
		return result
	}
	result.Nodes = &corev1.NodeList{}
	for _, node := range arguments.Nodes.Items {
		if passes(node.Name) {
			result.Nodes.Items = append(result.Nodes.Items, node)
		}
	}
	return result
}

func (it *program) prioritize(given orders, arguments *extender.ExtenderArgs) extender.HostPriorityList {
	var names []string
	if arguments.NodeNames != nil {
		names = *arguments.NodeNames
	} else {
		for _, node := range arguments.Nodes.Items {
			names = append(names, node.Name)
		}
	}
	scores := extender.HostPriorityList{}
	for _, name := range names {
		score := extender.MinExtenderPriority
		if name == given.Preferred {
			score = extender.MaxExtenderPriority
		}
		scores = append(scores, extender.HostPriority{Host: name, Score: score})
	}
	return scores
}

func (it *program) preempt(given orders, arguments *extender.ExtenderPreemptionArgs) *extender.ExtenderPreemptionResult {
	left := map[string]*extender.MetaVictims{}
	for name, victims := range arguments.NodeNameToMetaVictims {
		left[name] = victims
	}
	for name, victims := range arguments.NodeNameToVictims {
		meta := &extender.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			meta.Pods = append(meta.Pods, &extender.MetaPod{UID: string(pod.UID)})
		}
		left[name] = meta
	}
	for name, victims := range left {
		if given.Only != "" && name != given.Only {
			delete(left, name)
		}
		if given.Mode == "lies" {
			victims.Pods = []*extender.MetaPod{{UID: "nobody"}}
		}
	}
	return &extender.ExtenderPreemptionResult{NodeNameToMetaVictims: left}
}

func (it *program) bind(_ orders, arguments *extender.ExtenderBindingArgs) *extender.ExtenderBindingResult {
	result := &extender.ExtenderBindingResult{}
	if err := it.write(arguments); err != nil {
		result.Error = err.Error()
	}
	return result
}

func (it *program) write(arguments *extender.ExtenderBindingArgs) error {
	config, err := clientcmd.BuildConfigFromFlags("", it.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: arguments.PodNamespace,
			Name:      arguments.PodName,
			UID:       arguments.PodUID,
			// What tells this binding from one of the scheduler's own.
			Annotations: map[string]string{"example.com/bound-by": "extender"},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: arguments.Node},
	}
	return client.CoreV1().Pods(arguments.PodNamespace).Bind(context.Background(), binding, metav1.CreateOptions{})
}
