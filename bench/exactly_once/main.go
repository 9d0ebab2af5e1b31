// franz-go's part in bench/kill_under_load.py: what Workers.java does, with a GroupTransactSession, and prints the same.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const workers = 2

var (
	out                  sync.Mutex
	bootstrap            []string
	source, target, name string
	background           = context.Background()
	over, end            = context.WithCancel(background)
	spaces               = strings.NewReplacer("\t", " ", "\n", " ")
)

func main() {
	bootstrap, source, target, name = strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], os.Args[4]
	var group sync.WaitGroup
	for number := range workers {
		group.Go(func() { work(fmt.Sprintf("%s-%d", name, number)) })
	}
	group.Go(readAlong)
	io.Copy(io.Discard, os.Stdin)
	end()
	group.Wait()
	fmt.Println("end")
}

func say(fields ...any) {
	line := make([]string, len(fields))
	for at, field := range fields {
		line[at] = spaces.Replace(fmt.Sprint(field))
	}
	out.Lock()
	defer out.Unlock()
	fmt.Println(strings.Join(line, "\t"))
}

func readAlong() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(target),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	for over.Err() == nil {
		fetches := client.PollFetches(over)
		fetches.EachError(func(_ string, partition int32, err error) {
			if !errors.Is(err, context.Canceled) {
				say("failed", time.Now().UnixMilli(), fmt.Sprint("read of ", partition, " ", err))
			}
		})
		fetches.EachRecord(func(one *kgo.Record) { say("read", one.Partition, one.Offset, string(one.Value)) })
	}
}

// work begins anew with another session when one has come to its end.
func work(id string) {
	for count := 0; over.Err() == nil; {
		session, err := kgo.NewGroupTransactSession(
			kgo.SeedBrokers(bootstrap...), kgo.TransactionalID(id), kgo.TransactionTimeout(20*time.Second),
			kgo.ConsumerGroup(name), kgo.ConsumeTopics(source), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			// A member of its own would be waited for, for 45 s after each coordinator's death, when a session has ended.
			kgo.InstanceID(id),
		)
		if err != nil {
			panic(err)
		}
		// Ends what the session before has left open, so that the group's offsets are known.
		if _, _, err := session.Client().ProducerID(over); err != nil {
			say("failed", time.Now().UnixMilli(), "init "+err.Error())
		}
		for over.Err() == nil {
			polling, cancel := context.WithTimeout(over, 200*time.Millisecond)
			records := session.PollRecords(polling, 100).Records()
			cancel()
			if len(records) == 0 {
				continue
			}
			count++
			if !process(session, id, count, records) {
				break
			}
		}
		session.Close()
	}
}

// process is one transaction; tells whether the session may go on.
func process(session *kgo.GroupTransactSession, id string, count int, records []*kgo.Record) bool {
	transaction := fmt.Sprintf("%s.%d", id, count)
	var places []string
	var written []*kgo.Record
	for _, one := range records {
		place := fmt.Sprintf("%d:%d", one.Partition, one.Offset)
		places = append(places, place)
		to := int32(one.Offset%3) * 2
		for at, letter := range []string{"a", "b"} {
			value := []byte(transaction + "/" + place + "/" + letter)
			written = append(written, &kgo.Record{Topic: target, Partition: to + int32(at), Value: value})
		}
	}
	began, outcome, trouble := time.Now().UnixMilli(), "unknown", ""
	err := session.Begin()
	if err == nil {
		failed := session.ProduceSync(background, written...).FirstErr()
		committed, ended := session.End(background, kgo.TransactionEndTry(failed == nil && count%10 != 0))
		err = errors.Join(failed, ended)
		switch {
		case committed && ended == nil:
			outcome = "committed"
		case ended == nil:
			outcome = "aborted"
		}
		if outcome == "aborted" && failed == nil && count%10 != 0 {
			trouble = "not committed: a rebalance"
		}
	}
	if err != nil {
		trouble = err.Error()
	}
	say("transaction", transaction, began, time.Now().UnixMilli(), outcome, strings.Join(places, ","), trouble)
	return outcome != "unknown"
}
