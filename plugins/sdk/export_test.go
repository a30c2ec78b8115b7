package sdk

// Command is for tests outside of the package.
var Command = command
