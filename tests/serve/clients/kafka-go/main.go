package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
	"kafkalog/clients/reading"
)

func main() { reading.Main(begin) }

func begin(asked reading.Request) func() {
	ctx, cancel := context.WithCancel(context.Background())
	base := kafka.ReaderConfig{Brokers: []string{asked.Address}, MaxWait: 200 * time.Millisecond, MaxBytes: 10e6, StartOffset: kafka.FirstOffset}
	if asked.IsCommitted {
		base.IsolationLevel = kafka.ReadCommitted
	}
	var readers []*kafka.Reader
	if asked.Group != "" {
		base.GroupID, base.GroupTopics = asked.Group, asked.Topics
		readers = append(readers, kafka.NewReader(base))
	}
	for _, one := range asked.Places {
		base.Topic, base.Partition = one.Topic, int(one.Partition)
		reader := kafka.NewReader(base)
		reading.Check(reader.SetOffset(one.Offset))
		readers = append(readers, reader)
	}
	for _, reader := range readers {
		go func() {
			for {
				one, err := reader.FetchMessage(ctx)
				if err != nil {
					return
				}
				found := reading.Row{one.Topic, int32(one.Partition), one.Offset, one.Time.UnixMilli(), one.Key, one.Value, [][2]any{}}
				for _, header := range one.Headers {
					found.Headers = append(found.Headers, [2]any{header.Key, header.Value})
				}
				if asked.Group != "" {
					reading.Check(reader.CommitMessages(ctx, one))
				}
				asked.Rows <- found
			}
		}()
	}
	return func() {
		cancel()
		for _, reader := range readers {
			reading.Check(reader.Close())
		}
	}
}
