package main

import (
	"context"
	"fmt"
	"os"

	"github.com/IBM/sarama"
	"kafkalog/clients/reading"
)

func main() { reading.Main(begin) }

func begin(asked reading.Request) func() {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if asked.IsCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient([]string{asked.Address}, config)
	reading.Check(err)
	if asked.Group != "" {
		group, err := sarama.NewConsumerGroupFromClient(asked.Group, client)
		reading.Check(err)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			for ctx.Err() == nil {
				if err := group.Consume(ctx, asked.Topics, handler{asked.Rows}); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
		}()
		return func() { cancel(); reading.Check(group.Close()) } // Close commits what was marked
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	reading.Check(err)
	for _, one := range asked.Places {
		partition, err := consumer.ConsumePartition(one.Topic, one.Partition, one.Offset)
		reading.Check(err)
		go func() {
			for message := range partition.Messages() {
				asked.Rows <- ofSarama(message)
			}
		}()
	}
	return func() { reading.Check(client.Close()) }
}

type handler struct{ rows chan reading.Row }

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		h.rows <- ofSarama(message)
	}
	return nil
}

func ofSarama(one *sarama.ConsumerMessage) reading.Row {
	found := reading.Row{one.Topic, one.Partition, one.Offset, one.Timestamp.UnixMilli(), one.Key, one.Value, [][2]any{}}
	for _, header := range one.Headers {
		found.Headers = append(found.Headers, [2]any{string(header.Key), header.Value})
	}
	return found
}
