// A test of a program on franz-go: `pip install odradek`, `go test`
package orders

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

var said struct{ Bootstrap, Faults string }

func TestMain(m *testing.M) {
	os.Exit(besideMock(m))
}

func besideMock(m *testing.M) int {
	mock := exec.Command("odradek", "mock", "--brokers", "3", "--topic", "orders", "--faults-api", "0")
	mock.Stderr = os.Stderr
	output, _ := mock.StdoutPipe()
	if err := mock.Start(); err != nil {
		panic(err)
	}
	defer func() {
		mock.Process.Signal(os.Interrupt)
		mock.Wait()
	}()
	line, _ := bufio.NewReader(output).ReadBytes('\n')
	if err := json.Unmarshal(line, &said); err != nil {
		panic(err)
	}
	return m.Run()
}

func ask[T any](t *testing.T, method string, named map[string]any) (answer T) {
	t.Helper()
	body, _ := json.Marshal(named)
	response, err := http.Post(said.Faults+"/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var refused struct{ Error string }
		json.NewDecoder(response.Body).Decode(&refused)
		t.Fatal(refused.Error)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

type record struct{ Value string }

func TestOrdersSurviveARefusalAndTheDeathOfTheLeader(t *testing.T) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(said.Bootstrap, ",")...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	send := func(value string) {
		t.Helper()
		if err := client.ProduceSync(context.Background(), kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	refusal := ask[struct{ Fault int }](t, "respond",
		map[string]any{"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "orders"})
	send("first")
	ask[struct{}](t, "wait_for", map[string]any{"fault": refusal.Fault}) // it has struck, and the client has sent it again

	leader := ask[int](t, "leader", map[string]any{"topic": "orders"})
	ask[struct{}](t, "kill", map[string]any{"broker": leader})
	send("second")

	records := ask[[]record](t, "records", map[string]any{"topic": "orders"})
	if fmt.Sprint(records) != "[{first} {second}]" {
		t.Fatal(records)
	}
}
