package main

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"kafkalog/clients/reading"
)

func main() { reading.Main(begin) }

func begin(asked reading.Request) func() {
	ctx := context.Background()
	options := []kgo.Opt{kgo.SeedBrokers(asked.Address), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if asked.IsCommitted {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if asked.IsNext {
		options = append(options, kgo.WithContext(context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)))
	}
	if asked.Group != "" {
		options = append(options, kgo.ConsumerGroup(asked.Group), kgo.ConsumeTopics(asked.Topics...), kgo.DisableAutoCommit())
	} else {
		offsets := map[string]map[int32]kgo.Offset{}
		for _, one := range asked.Places {
			if offsets[one.Topic] == nil {
				offsets[one.Topic] = map[int32]kgo.Offset{}
			}
			offsets[one.Topic][one.Partition] = kgo.NewOffset().At(one.Offset)
		}
		options = append(options, kgo.ConsumePartitions(offsets))
	}
	client, err := kgo.NewClient(options...)
	reading.Check(err)
	go func() {
		for {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachError(func(topic string, partition int32, err error) { fmt.Fprintln(os.Stderr, topic, partition, err) })
			fetches.EachRecord(func(one *kgo.Record) {
				found := reading.Row{one.Topic, one.Partition, one.Offset, one.Timestamp.UnixMilli(), one.Key, one.Value, [][2]any{}}
				for _, header := range one.Headers {
					found.Headers = append(found.Headers, [2]any{header.Key, header.Value})
				}
				asked.Rows <- found
			})
		}
	}()
	return func() {
		if asked.Group != "" {
			reading.Check(client.CommitUncommittedOffsets(ctx))
		}
		client.Close()
	}
}
