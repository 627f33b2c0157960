package billing

// Unprobed returns the settings of a dialect, by their keys, that no probe finds out, and why.
func Unprobed() map[string]string {
	out := map[string]string{}
	for _, m := range meanings {
		if m.request == "" {
			out[m.setting] = m.how
		}
	}
	return out
}
