package main

import (
	"testing"
	"time"
)

func TestDemoBeginsOnAMondayThatIsOverInTime(t *testing.T) {
	t.Parallel()
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for hour := range 24 * 800 {
		now := time.Date(2026, 1, 1, hour, 30, 0, 0, tokyo)
		begin := demoBegins(now)
		if begin.Weekday() != time.Monday || begin.Hour() != 9 {
			t.Fatalf("at %v it begins on %v", now, begin)
		}
		if ago := now.Sub(begin); ago < (demoDays-1)*24*time.Hour || ago > 35*24*time.Hour {
			t.Fatalf("at %v it begins %v ago", now, ago)
		}
		for day := range demoDays {
			switch d := begin.AddDate(0, 0, day); {
			case d.Month() == time.December && (d.Day() >= 24 && d.Day() <= 26 || d.Day() == 31), d.Month() == time.January &&
				d.Day() == 1:
				t.Fatalf("at %v it begins on %v, and plays a holiday", now, begin)
			}
		}
	}
}

func TestDemoClockCatchesUpWithTheMachines(t *testing.T) {
	t.Parallel()
	c := newDemoClock()
	if behind := time.Since(c.now()); behind < (demoDays-1)*24*time.Hour {
		t.Errorf("it begins %v behind", behind)
	}
	days := 0
	for before := c.now(); c.pass(24 * time.Hour); days++ {
		if passed := c.now().Sub(before); passed < 24*time.Hour || passed > 24*time.Hour+time.Minute {
			t.Errorf("a day took %v", passed)
		}
		before = c.now()
	}
	if behind := time.Since(c.now()); days < demoDays-1 || behind < 0 || behind > time.Minute {
		t.Errorf("after %d days it is %v behind", days, behind)
	}
	if c.pass(time.Hour) {
		t.Error("it goes on into the future")
	}
}
