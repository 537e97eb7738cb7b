// Linearizability of single keys: clients work on the same few keys at once, and Porcupine looks
// for an order of what they did in which every reply is right.
//
// Arguments: the port, how many operations in all, and a seed; or `failover` and what is said there.
// Ends with a line `N passed, N failed`, which counts histories. First it wants to see wrong
// histories found out, one of each kind.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// How many operations one history has: an order of few is found at once.
const historyLength = 400

// How long one history may take to check; not to know is a failure.
const patience = 60 * time.Second

// What a client asks: a command without its key, and how it is shown.
type request struct {
	key   string
	name  string
	words []string
}

// A kind of value: its model and a random request to it.
type kind struct {
	name  string
	model porcupine.Model
	draw  func(random *rand.Rand) []string
	// Requests one after the other, with replies of which the last is wrong.
	planted []exchange
}

// A command without its key, and the reply.
type exchange struct {
	words string
	reply string
}

var kinds = []kind{register, counter, list, set, hash}

// Clients and keys of a history.
var shapes = [][2]int{{2, 1}, {4, 1}, {8, 2}, {16, 4}}

func main() {
	if os.Args[1] == "failover" {
		failover(os.Args[2:])
		return
	}
	port := os.Args[1]
	operations, err := strconv.Atoi(os.Args[2])
	check(err)
	seed, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	passed, failed := 0, 0
	for _, kind := range kinds {
		provePlanted(kind)
	}
	for number := 0; number*historyLength < operations; number++ {
		kind := kinds[number%len(kinds)]
		shape := shapes[number/len(kinds)%len(shapes)]
		history := run(port, kind, shape, seed+int64(number))
		result := porcupine.CheckOperationsTimeout(kind.model, history, patience)
		if result == porcupine.Ok {
			passed++
			continue
		}
		failed++
		fmt.Printf("%s, %v clients and keys, seed %d: %s\n", kind.name, shape, seed+int64(number), result)
		for _, operation := range history {
			fmt.Println(operation.ClientId, operation.Call, operation.Return, operation.Input, operation.Output)
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// Fails unless the last reply, and only that, is found to be wrong.
func provePlanted(kind kind) {
	var history []porcupine.Operation
	for at, one := range kind.planted {
		words := strings.Fields(one.words)
		input := request{"planted", words[0], words[1:]}
		moment := int64(2 * at)
		history = append(history, porcupine.Operation{
			ClientId: at % 2, Input: input, Call: moment, Output: one.reply, Return: moment + 1,
		})
	}
	last := len(history) - 1
	if !porcupine.CheckOperations(kind.model, history[:last]) || porcupine.CheckOperations(kind.model, history) {
		panic(kind.name + ": what is planted is not found")
	}
}

// Has clients work on fresh keys, and notes what they saw and when.
func run(port string, kind kind, shape [2]int, seed int64) []porcupine.Operation {
	clients, keys := shape[0], shape[1]
	prefix := fmt.Sprintf("%s:%d", kind.name, seed)
	begin := time.Now()
	histories := make([][]porcupine.Operation, clients)
	var all sync.WaitGroup
	for number := 0; number < clients; number++ {
		all.Add(1)
		go func() {
			defer all.Done()
			connection := dial(port)
			defer connection.close()
			random := rand.New(rand.NewSource(seed*1000 + int64(number)))
			for count := 0; count < historyLength/clients; count++ {
				key := fmt.Sprintf("%s:%d", prefix, random.Intn(keys))
				words := kind.draw(random)
				input := request{key, words[0], words[1:]}
				call := time.Since(begin).Nanoseconds()
				output := connection.call(append([]string{words[0], key}, words[1:]...))
				histories[number] = append(histories[number], porcupine.Operation{
					ClientId: number,
					Input:    input,
					Call:     call,
					Output:   output,
					Return:   time.Since(begin).Nanoseconds(),
				})
			}
		}()
	}
	all.Wait()
	var history []porcupine.Operation
	for _, one := range histories {
		history = append(history, one...)
	}
	return history
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
