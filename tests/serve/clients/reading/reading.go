// Package reading has what the programs for the libraries share. Each reads records, and prints each as a line of JSON:
//
//	LIBRARY ADDRESS assign ISOLATION COUNT TOPIC:PARTITION:OFFSET...
//	LIBRARY ADDRESS group=NAME|next=NAME ISOLATION COUNT TOPIC...
//
// A group reads from the start, commits what it read, and leaves; next: by the consumer protocol (franz-go only).
package reading

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const patience = 60 * time.Second

// Row is a record.
type Row struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   [][2]any `json:"headers"`
}

// Place is where to begin.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Request is what to read: topics in a group, or places without one. Records go to Rows.
type Request struct {
	Address     string
	IsCommitted bool
	Group       string
	IsNext      bool
	Places      []Place
	Topics      []string
	Rows        chan Row
}

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	Check(err)
	return value
}

// Main is the program of a library: begin starts to read, and returns what commits and ends it.
func Main(begin func(Request) func()) {
	words := os.Args[1:]
	asked := Request{Address: words[0], IsCommitted: words[2] == "read_committed", Rows: make(chan Row, 1<<16)}
	how, name, _ := strings.Cut(words[1], "=")
	asked.Group, asked.IsNext = name, how == "next"
	for _, word := range words[4:] {
		if how != "assign" {
			asked.Topics = append(asked.Topics, word)
			continue
		}
		parts := strings.Split(word, ":")
		asked.Places = append(asked.Places, Place{parts[0], int32(number(parts[1])), number(parts[2])})
	}
	finish := begin(asked)
	out := bufio.NewWriter(os.Stdout)
	late := time.After(patience)
	for left := number(words[3]); left > 0; left-- {
		select {
		case one := <-asked.Rows:
			line, err := json.Marshal(one)
			Check(err)
			out.Write(append(line, '\n'))
		case <-late:
			fmt.Fprintln(os.Stderr, left, "records did not come")
			left = 0
		}
	}
	Check(out.Flush())
	finish()
}
