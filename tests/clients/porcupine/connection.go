// A connection that asks one thing at a time, and shows each reply as a model tells it.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sort"
	"strconv"
	"strings"
)

type connection struct {
	socket net.Conn
	reader *bufio.Reader
}

func dial(port string) *connection {
	socket, err := net.Dial("tcp", "127.0.0.1:"+port)
	check(err)
	return &connection{socket, bufio.NewReader(socket)}
}

func (connection *connection) close() {
	connection.socket.Close()
}

// Sends a command and returns its reply as text: that of a set in order, that of a hash as pairs.
func (connection *connection) call(words []string) string {
	check(connection.send(words))
	items, isArray, err := connection.reply()
	check(err)
	if !isArray {
		return items[0]
	}
	switch words[0] {
	case "SMEMBERS":
		sort.Strings(items)
	case "HGETALL":
		items = pairs(items)
	}
	return show(items)
}

// Sends commands at once.
func (connection *connection) send(commands ...[]string) error {
	var text strings.Builder
	for _, words := range commands {
		fmt.Fprintf(&text, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	_, err := io.WriteString(connection.socket, text.String())
	return err
}

// A reply that is an error.
type refusal string

func (refusal refusal) Error() string {
	return string(refusal)
}

// Reads a reply: the elements of an array, or one text.
func (connection *connection) reply() ([]string, bool, error) {
	line, err := connection.reader.ReadString('\n')
	if err != nil {
		return nil, false, err
	}
	line = strings.TrimRight(line, "\r\n")
	rest := line[1:]
	switch line[0] {
	case '+', ':':
		return []string{rest}, false, nil
	case '-':
		return nil, false, refusal(line)
	case '$':
		text, err := connection.bulk(rest)
		return []string{text}, false, err
	case '*':
		length, err := strconv.Atoi(rest)
		var items []string
		for count := 0; err == nil && count < length; count++ {
			var item []string
			if item, _, err = connection.reply(); err == nil {
				items = append(items, item[0])
			}
		}
		return items, true, err
	}
	return nil, false, fmt.Errorf("a reply: %s", line)
}

func (connection *connection) bulk(header string) (string, error) {
	length, err := strconv.Atoi(header)
	if err != nil || length < 0 {
		return "nil", err
	}
	bytes := make([]byte, length+2)
	_, err = io.ReadFull(connection.reader, bytes)
	return string(bytes[:max(0, len(bytes)-2)]), err
}

func pairs(items []string) []string {
	var pairs []string
	for at := 0; at+1 < len(items); at += 2 {
		pairs = append(pairs, items[at]+"="+items[at+1])
	}
	sort.Strings(pairs)
	return pairs
}
