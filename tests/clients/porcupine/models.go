// What each kind of value is: a state as text, and which reply and state follow from a request.
package main

import (
	"math/rand"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Histories fall apart by key.
func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, operation := range history {
		key := operation.Input.(request).key
		parts[key] = append(parts[key], operation)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

// A model whose state is a list of words; `step` says whether the reply is right, and what is then
// there.
func modelOf(step func(state []string, input request, output string) (bool, []string)) porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			isRight, after := step(split(state.(string)), input.(request), output.(string))
			return isRight, strings.Join(after, " ")
		},
		Equal: func(one, other any) bool { return one.(string) == other.(string) },
	}
}

func split(state string) []string {
	return strings.Fields(state)
}

func show(words []string) string {
	return "[" + strings.Join(words, " ") + "]"
}

func oneOf(random *rand.Rand, requests ...[]string) []string {
	return requests[random.Intn(len(requests))]
}

func number(random *rand.Rand, bound int) string {
	return strconv.Itoa(random.Intn(bound))
}

// A value, if there is one.
var register = kind{
	name:    "register",
	planted: []exchange{{"SET 1", "OK"}, {"SET 2", "OK"}, {"GET", "1"}},
	draw: func(random *rand.Rand) []string {
		value := number(random, 1000)
		return oneOf(random, []string{"GET"}, []string{"GET"}, []string{"SET", value}, []string{"GETSET", value},
			[]string{"SETNX", value}, []string{"GETDEL"}, []string{"DEL"})
	},
	model: modelOf(func(state []string, input request, output string) (bool, []string) {
		before, exists := "nil", "0"
		if len(state) > 0 {
			before, exists = state[0], "1"
		}
		switch input.name {
		case "GET":
			return output == before, state
		case "SET":
			return output == "OK", input.words
		case "GETSET":
			return output == before, input.words
		case "GETDEL":
			return output == before, nil
		case "DEL":
			return output == exists, nil
		case "UNHEARD":
			return true, nil
		case "SETNX":
			if exists == "1" {
				return output == "0", state
			}
			return output == "1", input.words
		}
		panic(input.name)
	}),
}

// A sum.
var counter = kind{
	name:    "counter",
	planted: []exchange{{"INCR", "1"}, {"INCR", "1"}},
	draw: func(random *rand.Rand) []string {
		return oneOf(random, []string{"INCR"}, []string{"DECR"}, []string{"INCRBY", number(random, 9)}, []string{"GET"})
	},
	model: modelOf(func(state []string, input request, output string) (bool, []string) {
		sum := 0
		if len(state) > 0 {
			sum, _ = strconv.Atoi(state[0])
		}
		switch input.name {
		case "GET":
			return output == "nil" && len(state) == 0 || output == strconv.Itoa(sum) && len(state) > 0, state
		case "INCR":
			sum++
		case "DECR":
			sum--
		case "INCRBY":
			more, _ := strconv.Atoi(input.words[0])
			sum += more
		default:
			panic(input.name)
		}
		return output == strconv.Itoa(sum), []string{strconv.Itoa(sum)}
	}),
}

// A sequence with two ends.
var list = kind{
	name:    "list",
	planted: []exchange{{"RPUSH 1", "1"}, {"RPUSH 2", "2"}, {"LPOP", "2"}},
	draw: func(random *rand.Rand) []string {
		value := number(random, 1000)
		return oneOf(random, []string{"LPUSH", value}, []string{"RPUSH", value}, []string{"LPOP"}, []string{"RPOP"},
			[]string{"LLEN"}, []string{"LRANGE", "0", "-1"}, []string{"LINDEX", "0"}, []string{"LTRIM", "0", "2"})
	},
	model: modelOf(func(state []string, input request, output string) (bool, []string) {
		last := len(state) - 1
		switch input.name {
		case "LPUSH", "RPUSH":
			after := append(append([]string(nil), state...), input.words[0])
			if input.name == "LPUSH" {
				after = append([]string{input.words[0]}, state...)
			}
			return output == strconv.Itoa(len(after)), after
		case "LLEN":
			return output == strconv.Itoa(len(state)), state
		case "LRANGE":
			return output == show(state), state
		case "LTRIM":
			return output == "OK", state[:min(3, len(state))]
		}
		if last < 0 {
			return output == "nil", state
		}
		switch input.name {
		case "LINDEX":
			return output == state[0], state
		case "LPOP":
			return output == state[0], state[1:]
		case "RPOP":
			return output == state[last], state[:last]
		}
		panic(input.name)
	}),
}

// Members in order.
var set = kind{
	name:    "set",
	planted: []exchange{{"SADD 1", "1"}, {"SPOP", "1"}, {"SPOP", "1"}},
	draw: func(random *rand.Rand) []string {
		member := number(random, 6)
		return oneOf(random, []string{"SADD", member}, []string{"SADD", member}, []string{"SREM", member},
			[]string{"SISMEMBER", member}, []string{"SCARD"}, []string{"SMEMBERS"}, []string{"SPOP"})
	},
	model: modelOf(func(state []string, input request, output string) (bool, []string) {
		switch input.name {
		case "SCARD":
			return output == strconv.Itoa(len(state)), state
		case "SMEMBERS":
			return output == show(state), state
		case "SPOP":
			if len(state) == 0 {
				return output == "nil", state
			}
			return contains(state, output), without(state, output)
		}
		member := input.words[0]
		isThere := contains(state, member)
		switch input.name {
		case "SISMEMBER":
			return output == truth(isThere), state
		case "SREM":
			return output == truth(isThere), without(state, member)
		case "SADD":
			return output == truth(!isThere), with(state, member)
		}
		panic(input.name)
	}),
}

// Pairs of a field and a value, in order of the fields.
var hash = kind{
	name:    "hash",
	planted: []exchange{{"HSET 1 5", "1"}, {"HINCRBY 1 1", "6"}, {"HGET 1", "5"}},
	draw: func(random *rand.Rand) []string {
		field, value := number(random, 4), number(random, 1000)
		return oneOf(random, []string{"HSET", field, value}, []string{"HDEL", field}, []string{"HGET", field},
			[]string{"HINCRBY", field, "1"}, []string{"HLEN"}, []string{"HGETALL"}, []string{"HSETNX", field, value})
	},
	model: modelOf(func(state []string, input request, output string) (bool, []string) {
		switch input.name {
		case "HLEN":
			return output == strconv.Itoa(len(state)), state
		case "HGETALL":
			return output == show(state), state
		}
		field := input.words[0]
		pair := find(state, field)
		isThere := pair != ""
		_, value, _ := strings.Cut(pair, "=")
		rest := without(state, pair)
		switch input.name {
		case "HGET":
			return isThere && output == value || !isThere && output == "nil", state
		case "HDEL":
			return output == truth(isThere), rest
		case "HSET":
			return output == truth(!isThere), with(rest, field+"="+input.words[1])
		case "HSETNX":
			if isThere {
				return output == "0", state
			}
			return output == "1", with(rest, field+"="+input.words[1])
		case "HINCRBY":
			sum, _ := strconv.Atoi(value)
			next := strconv.Itoa(sum + 1)
			return output == next, with(rest, field+"="+next)
		}
		panic(input.name)
	}),
}

func truth(holds bool) string {
	if holds {
		return "1"
	}
	return "0"
}

func contains(words []string, word string) bool {
	for _, other := range words {
		if other == word {
			return true
		}
	}
	return false
}

func without(words []string, word string) []string {
	var left []string
	for _, other := range words {
		if other != word {
			left = append(left, other)
		}
	}
	return left
}

// The words with one more, in order.
func with(words []string, word string) []string {
	all := append(without(words, word), word)
	sort.Strings(all)
	return all
}

// The pair of a field; "" if there is none.
func find(pairs []string, field string) string {
	for _, pair := range pairs {
		if strings.HasPrefix(pair, field+"=") {
			return pair
		}
	}
	return ""
}
