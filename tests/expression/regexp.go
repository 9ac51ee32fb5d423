// What Go's regexp says of expressions: reads lines of JSON, writes a line for each.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"regexp"
)

type question struct {
	Expression string
	Texts      []string
}

type answer struct {
	Error   string   `json:"error"`
	Names   []string `json:"names"`
	Indexes [][]int  `json:"indexes"`
}

func main() {
	questions := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		var q question
		if questions.Decode(&q) != nil {
			return
		}
		var a answer
		if compiled, err := regexp.Compile(q.Expression); err != nil {
			a.Error = err.Error()
		} else {
			a.Names = compiled.SubexpNames()
			for _, text := range q.Texts {
				a.Indexes = append(a.Indexes, compiled.FindStringSubmatchIndex(text))
			}
		}
		answers.Encode(a)
	}
}
