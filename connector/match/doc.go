// Package match finds which record of an accounting system and which customer of
// the billing service may be the same, and says why.
package match
