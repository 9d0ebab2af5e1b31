module odradek/bench/exactly_once

go 1.26

require github.com/twmb/franz-go v1.22.2
