// Package web draws pages from rows: the report of a data set, one HTML file
// that needs nothing else, no script and no network. Pages are functions of
// their rows, so the same rows give the same bytes.
package web
