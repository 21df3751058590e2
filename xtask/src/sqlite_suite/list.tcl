# Prints the files of SQLite's own sets of tests, a line each: the set, a tab, the path.
# Arguments: the directory of the tests, then the sets.
set testdir [lindex $argv 0]
set sets [lrange $argv 1 end]
# permutations.test runs a set only when it is itself the script.
set argv0 $testdir/list.test
set argv {}
source $testdir/permutations.test
foreach set $sets {
  array set specification $::testspec($set)
  foreach file [lsort $specification(-files)] {
    puts "in\t$set\t[file tail $file]"
  }
}
exit
