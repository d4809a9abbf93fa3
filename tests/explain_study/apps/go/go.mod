module study

go 1.19
