// kfake, the Kafka in memory of franz-go, for bench/cluster_in_a_test.py: prints where it is when its topic can be asked for.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, "orders"))
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("orders"))
	if err != nil {
		panic(err)
	}
	if err := client.Ping(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(cluster.ListenAddrs())
	io.Copy(io.Discard, os.Stdin)
}
