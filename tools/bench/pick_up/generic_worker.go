// A worker that waits as generic-worker does, with the public Go client. Build it in a module of its own that requires
// github.com/taskcluster/taskcluster, and name the program with --program.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	tcclient "github.com/taskcluster/taskcluster/v106/clients/client-go"
	"github.com/taskcluster/taskcluster/v106/clients/client-go/tcqueue"
)

type options struct {
	RootURL     string `json:"rootUrl"`
	ClientID    string `json:"clientId"`
	AccessToken string `json:"accessToken"`
	TaskQueueID string `json:"taskQueueId"`
	Workers     int    `json:"workers"`
}

func main() {
	var given options
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	var output sync.Mutex
	for number := 0; number < given.Workers; number++ {
		go func() {
			queue := tcqueue.New(&tcclient.Credentials{ClientID: given.ClientID, AccessToken: given.AccessToken}, given.RootURL)
			worker := fmt.Sprintf("go-%d", number)
			for {
				next := time.After(5 * time.Second)
				answer, err := queue.ClaimWork(given.TaskQueueID, &tcqueue.ClaimWorkRequest{Tasks: 1, WorkerGroup: "bench", WorkerID: worker})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
				} else if len(answer.Tasks) > 0 {
					now := float64(time.Now().UnixNano()) / 1e9
					claim := answer.Tasks[0]
					output.Lock()
					fmt.Printf("%s %s %f\n", worker, claim.Status.TaskID, now)
					output.Unlock()
					of := tcqueue.New(&tcclient.Credentials{ClientID: claim.Credentials.ClientID, AccessToken: claim.Credentials.AccessToken, Certificate: claim.Credentials.Certificate}, given.RootURL)
					if _, err := of.ReportCompleted(claim.Status.TaskID, fmt.Sprint(claim.RunID)); err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
					continue
				}
				<-next
			}
		}()
	}
	select {}
}
