// Histories of single keys through failovers. Each operation is one transaction that also changes a
// key of nobody's, with WAIT behind it: so a read, too, is told only when a replica has what it saw.
//
// Arguments: how many operations are to be acknowledged, a seed, and the ports of the nodes, one of
// which is the primary at any time.
//
// What was sent and not acknowledged may have happened or not. Nothing else may be lost, come back,
// or be seen out of order.
package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// Clients that work at once.
const clientsOfFailover = 4

// Keys of a generation, and how long it is worked on: an order of few operations is found at once.
const keysOfGeneration = 2
const generation = 200 * time.Millisecond

// What became of an operation.
type outcome int

const (
	acknowledged outcome = iota
	refused
	unknown
)

// What all clients know.
type trial struct {
	ports []string
	begin time.Time
	seed  int64
	// Operations that are still to be acknowledged.
	left      atomic.Int64
	uncertain atomic.Int64
}

func failover(arguments []string) {
	proveLossIsFound()
	operations, err := strconv.ParseInt(arguments[0], 10, 64)
	check(err)
	seed, err := strconv.ParseInt(arguments[1], 10, 64)
	check(err)
	all := &trial{ports: arguments[2:], begin: time.Now(), seed: seed}
	all.left.Store(operations)
	histories := make([][]porcupine.Operation, clientsOfFailover)
	var clients sync.WaitGroup
	for number := range clientsOfFailover {
		clients.Add(1)
		go func() {
			defer clients.Done()
			histories[number] = all.work(number)
		}()
	}
	clients.Wait()
	var history []porcupine.Operation
	for _, one := range histories {
		history = append(history, one...)
	}
	passed, failed := 0, 0
	for _, part := range byKey(history) {
		result := porcupine.CheckOperationsTimeout(register.model, part, patience)
		if result == porcupine.Ok {
			passed++
			continue
		}
		failed++
		fmt.Printf("seed %d: %s\n", seed, result)
		for _, operation := range part {
			fmt.Println(operation.ClientId, operation.Call, operation.Return, operation.Input, operation.Output)
		}
	}
	fmt.Printf("%d acknowledged, %d uncertain\n", operations-all.left.Load(), all.uncertain.Load())
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// A client: goes from node to node to where it may write.
func (all *trial) work(number int) []porcupine.Operation {
	random := rand.New(rand.NewSource(all.seed*100 + int64(number)))
	var history []porcupine.Operation
	for node := 0; all.left.Load() > 0; node++ {
		socket, err := net.Dial("tcp", "127.0.0.1:"+all.ports[node%len(all.ports)])
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		connection := &connection{socket, bufio.NewReader(socket)}
		for all.left.Load() > 0 {
			operation, became := all.one(connection, random, number, len(history))
			if became == refused {
				break
			}
			if became == acknowledged || operation.Input.(request).name != "GET" {
				history = append(history, operation)
			}
			if became == unknown {
				all.uncertain.Add(1)
				break
			}
			all.left.Add(-1)
		}
		connection.close()
		time.Sleep(5 * time.Millisecond)
	}
	return history
}

// One operation, and what became of it.
func (all *trial) one(connection *connection, random *rand.Rand, number, count int) (porcupine.Operation, outcome) {
	value := fmt.Sprintf("%d-%d", number, count)
	words := oneOf(random, []string{"GET"}, []string{"GET"}, []string{"SET", value}, []string{"GETSET", value}, []string{"DEL"})
	key := fmt.Sprintf("history:%d:%d", time.Since(all.begin)/generation, random.Intn(keysOfGeneration))
	operation := porcupine.Operation{ClientId: number, Call: time.Since(all.begin).Nanoseconds()}
	output, became := connection.promised(append([]string{words[0], key}, words[1:]...))
	operation.Input, operation.Output = request{key, words[0], words[1:]}, output
	operation.Return = time.Since(all.begin).Nanoseconds()
	if became == unknown {
		// When it happens, if at all, what it would have replied is nobody's business.
		operation.Return = math.MaxInt64
		operation.Input, operation.Output = unheard(operation.Input.(request))
	}
	return operation, became
}

// A change whose reply nobody heard.
func unheard(asked request) (request, string) {
	switch asked.name {
	case "GETSET":
		return request{asked.key, "SET", asked.words}, "OK"
	case "SET":
		return asked, "OK"
	case "DEL":
		return request{asked.key, "UNHEARD", nil}, ""
	}
	return asked, ""
}

// Runs a command whose effect, and what it saw, a replica has when it is acknowledged.
func (connection *connection) promised(words []string) (string, outcome) {
	connection.socket.SetDeadline(time.Now().Add(patience))
	barrier := []string{"INCR", "barrier"}
	err := connection.send([]string{"MULTI"}, words, barrier, []string{"EXEC"}, []string{"WAIT", "1", "0"})
	if err != nil {
		return "", unknown
	}
	var replies [5][]string
	for at := range replies {
		items, _, err := connection.reply()
		if _, isRefusal := err.(refusal); err != nil && !isRefusal {
			return "", unknown
		}
		// What is refused by EXEC has not happened.
		if at == 3 && len(items) != 2 {
			return "", refused
		}
		replies[at] = items
	}
	if len(replies[4]) == 0 || replies[4][0] != "1" {
		return "", unknown
	}
	return replies[3][0], acknowledged
}

// Fails unless an acknowledged change that is lost is found, and one that was not is let go.
func proveLossIsFound() {
	set := porcupine.Operation{Input: request{"planted", "SET", []string{"1"}}, Call: 0, Output: "OK", Return: 1}
	get := porcupine.Operation{ClientId: 1, Input: request{"planted", "GET", nil}, Call: 2, Output: "nil", Return: 3}
	seen := porcupine.Operation{ClientId: 1, Input: request{"planted", "GET", nil}, Call: 4, Output: "1", Return: 5}
	isRight := func(history ...porcupine.Operation) bool { return porcupine.CheckOperations(register.model, history) }
	lost := isRight(set, get)
	set.Return = math.MaxInt64
	if lost || !isRight(set, get) || !isRight(set, get, seen) {
		panic("what is planted is not found")
	}
}
