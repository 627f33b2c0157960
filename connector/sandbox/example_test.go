package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"payersync/connector/sandbox"
)

// A lost answer: the client cannot know that its customer was made, and sends
// the same bytes again.
func Example() {
	service := sandbox.New(sandbox.Options{Seed: 1})
	service.Inject(sandbox.Fault{Kind: sandbox.LostResponse, Method: "POST", Count: 1})
	client := &http.Client{Transport: service.RoundTripper()}
	token := service.IssueToken(sandbox.ClientCredentials, time.Hour)

	for range 2 {
		req, err := http.NewRequest("POST", "http://sandbox.test/api/customers", strings.NewReader(`{"name":"Northwind"}`))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println(len(service.Customers()), "customer after", service.Writes(), "writes")
	// Output:
	// no answer
	// 200 OK
	// 1 customer after 2 writes
}
