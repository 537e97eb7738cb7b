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
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := io.WriteString(connection.socket, text.String())
	check(err)
	items, isArray := connection.reply()
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

// Reads a reply: the elements of an array, or one text.
func (connection *connection) reply() ([]string, bool) {
	line, err := connection.reader.ReadString('\n')
	check(err)
	line = strings.TrimRight(line, "\r\n")
	rest := line[1:]
	switch line[0] {
	case '+', ':':
		return []string{rest}, false
	case '$':
		return []string{connection.bulk(rest)}, false
	case '*':
		length, err := strconv.Atoi(rest)
		check(err)
		var items []string
		for count := 0; count < length; count++ {
			item, _ := connection.reply()
			items = append(items, item[0])
		}
		return items, true
	}
	panic("a reply: " + line)
}

func (connection *connection) bulk(header string) string {
	length, err := strconv.Atoi(header)
	check(err)
	if length < 0 {
		return "nil"
	}
	bytes := make([]byte, length+2)
	_, err = io.ReadFull(connection.reader, bytes)
	check(err)
	return string(bytes[:length])
}

func pairs(items []string) []string {
	var pairs []string
	for at := 0; at+1 < len(items); at += 2 {
		pairs = append(pairs, items[at]+"="+items[at+1])
	}
	sort.Strings(pairs)
	return pairs
}
