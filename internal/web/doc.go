// Package web draws pages: the report of a data set, one HTML file that needs
// nothing else, no script and no network; and the live dashboard of a daemon. A
// report is a function of its rows, so the same rows give the same bytes.
package web
