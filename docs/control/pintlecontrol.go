// Package pintlecontrol drives a cluster that runs as `pintle up --ephemeral --control`, with nothing but Go's
// standard library. The protocol is in docs/control.md. Copy this file into your project if you like.
//
//	cluster, err := pintlecontrol.Open("/tmp/kubeconfig")
//	err = cluster.Fault("my-operator", "fail", map[string]any{"code": 409}) // its next write meets a conflict
//	err = cluster.Settle(nil)                                               // until everything has happened
//	now, err := cluster.Advance("24h", nil)                                 // a day passes in seconds
//	fork, err := cluster.Fork()                                             // a copy that goes its own way
//	defer fork.End()
package pintlecontrol

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// Cluster is a cluster behind a kubeconfig that pintle wrote.
type Cluster struct {
	// Server is the address of the API, for example https://127.0.0.1:6443.
	Server string
	// Client knows the administrator's certificate. An operator under test uses its own client and user agent.
	Client *http.Client
	parent *Cluster
	id     string
}

// Now is the cluster's time and how it moves: "follow" or "manual".
type Now struct {
	Now  string `json:"now"`
	Mode string `json:"mode"`
}

// Plan is a planned fault, and how often it was met.
type Plan struct {
	Agent    string `json:"agent"`
	Fault    string `json:"fault"`
	Resource string `json:"resource"`
	Nth      uint64 `json:"nth"`
	Times    uint64 `json:"times"`
	Seen     uint64 `json:"seen"`
	Met      uint64 `json:"met"`
}

// Snapshot is the state as a value that two runs can be compared by.
type Snapshot struct {
	Objects map[string]any `json:"objects"`
	Leaks   []string       `json:"leaks"`
}

// Refused is an answer that is not 2xx.
type Refused struct {
	Code    int
	Message string
}

func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

// pintle writes its kubeconfig as JSON, which is YAML too.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server    string `json:"server"`
			Authority []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Certificate []byte `json:"client-certificate-data"`
			Key         []byte `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

// Open reads the kubeconfig in a file.
func Open(path string) (*Cluster, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Parse takes the kubeconfig itself.
func Parse(text []byte) (*Cluster, error) {
	var config kubeconfig
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("not a kubeconfig that pintle wrote: %w", err)
	}
	if len(config.Clusters) == 0 || len(config.Users) == 0 {
		return nil, errors.New("the kubeconfig names no cluster or no user")
	}
	cluster, user := config.Clusters[0].Cluster, config.Users[0].User
	certificate, err := tls.X509KeyPair(user.Certificate, user.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cluster.Authority) {
		return nil, errors.New("the kubeconfig has no certificate authority")
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
		ForceAttemptHTTP2: true,
	}
	return &Cluster{Server: cluster.Server, Client: &http.Client{Transport: transport}}, nil
}

// Do sends a request; the answer is decoded into out, unless that is nil.
func (c *Cluster) Do(method, path string, body, out any) error {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, c.Server+path, reader)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "pintlecontrol/1.0")
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.Client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		refused := &Refused{Code: answer.StatusCode, Message: string(content)}
		var status struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(content, &status) == nil && status.Message != "" {
			refused.Message = status.Message
		}
		return refused
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(content, out)
}

// Settle returns when everything rests. Options: quiet, virtualQuiet, timeout. A Refused with code 408 says what does
// not rest.
func (c *Cluster) Settle(options map[string]any) error {
	return c.Do("POST", "/control/settle", with(options, nil), nil)
}

// Advance moves the cluster's time. Options: step, quiet, timeout.
func (c *Cluster) Advance(by string, options map[string]any) (Now, error) {
	var now Now
	err := c.Do("POST", "/control/advance", with(options, map[string]any{"by": by}), &now)
	return now, err
}

// Time is the cluster's time.
func (c *Cluster) Time() (Now, error) {
	var now Now
	err := c.Do("GET", "/control/time", nil, &now)
	return now, err
}

// SetMode says how time moves: "follow" the machine's, or "manual".
func (c *Cluster) SetMode(mode string) error {
	return c.Do("POST", "/control/time", map[string]any{"mode": mode}, nil)
}

// Fault plans a fault for whoever's user agent begins with agent.
func (c *Cluster) Fault(agent, fault string, options map[string]any) error {
	return c.Do("POST", "/control/faults", with(options, map[string]any{"agent": agent, "fault": fault}), nil)
}

// Faults is what is planned, and how often it was met.
func (c *Cluster) Faults() ([]Plan, error) {
	var answer struct {
		Faults []Plan `json:"faults"`
	}
	err := c.Do("GET", "/control/faults", nil, &answer)
	return answer.Faults, err
}

// LiftFaults forgets every plan.
func (c *Cluster) LiftFaults() error { return c.Do("DELETE", "/control/faults", nil, nil) }

// Snapshot is the state now.
func (c *Cluster) Snapshot() (Snapshot, error) {
	var snapshot Snapshot
	err := c.Do("POST", "/control/snapshot", nil, &snapshot)
	return snapshot, err
}

// Trace is a hash of everything written since the start.
func (c *Cluster) Trace() (string, error) {
	var answer struct {
		Hash string `json:"hash"`
	}
	err := c.Do("GET", "/control/trace", nil, &answer)
	return answer.Hash, err
}

// Fork makes a copy on another port. End it when it is not needed any more.
func (c *Cluster) Fork() (*Cluster, error) {
	var answer struct {
		ID         string `json:"id"`
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := c.Do("POST", "/control/fork", nil, &answer); err != nil {
		return nil, err
	}
	fork, err := Parse([]byte(answer.Kubeconfig))
	if err != nil {
		return nil, err
	}
	fork.parent, fork.id = c, answer.ID
	return fork, nil
}

// End ends a fork.
func (c *Cluster) End() error {
	if c.parent == nil {
		return errors.New("this cluster is not a fork; stop pintle to end it")
	}
	return c.parent.Do("DELETE", "/control/forks/"+c.id, nil, nil)
}

func with(options, more map[string]any) map[string]any {
	all := map[string]any{}
	for _, fields := range []map[string]any{options, more} {
		for name, value := range fields {
			all[name] = value
		}
	}
	return all
}
