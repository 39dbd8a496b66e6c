// Calls everything that the helper offers, for the test of the helper.
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"

	"example/pintlecontrol"
)

const maps = "/api/v1/namespaces/default/configmaps"

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func expect(holds bool, what string) {
	if !holds {
		must(errors.New(what))
	}
}

func main() {
	cluster, err := pintlecontrol.Open(os.Args[1])
	must(err)
	must(cluster.SetMode("manual"))
	must(cluster.Settle(nil))
	before, err := cluster.Time()
	must(err)
	after, err := cluster.Advance("1h", map[string]any{"step": "10m"})
	must(err)
	expect(after.Now > before.Now && after.Mode == "manual", "an hour passes: "+after.Now)

	must(cluster.Fault("pintlecontrol", "fail", map[string]any{"code": 409}))
	object := map[string]any{"metadata": map[string]any{"name": "a"}}
	var refused *pintlecontrol.Refused
	expect(errors.As(cluster.Do("POST", maps, object, nil), &refused) && refused.Code == 409, "a conflict")
	must(cluster.Do("POST", maps, object, nil))
	plans, err := cluster.Faults()
	must(err)
	expect(len(plans) == 1 && plans[0].Met == 1 && plans[0].Seen == 2, fmt.Sprint(plans))
	must(cluster.LiftFaults())

	fork, err := cluster.Fork()
	must(err)
	here, err := cluster.Snapshot()
	must(err)
	there, err := fork.Snapshot()
	must(err)
	expect(len(here.Objects) > 0 && reflect.DeepEqual(here.Objects, there.Objects), "a fork is a copy")
	must(fork.End())
	trace, err := cluster.Trace()
	must(err)
	expect(len(trace) == 16, trace)
	fmt.Println("passed")
}
