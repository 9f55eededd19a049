# Runs scripts of the vendor's tools in interpreters that know Tcl and nothing else, and prints what they called.
#
# Standard input: a Tcl list of runs, each {scenario script file answers}. Answers are pairs of a pattern over the whole
# command and what it returns; `@last` returns the last word, `@words` all that are no options. Standard output: one line of JSON a run.

proc json_string {text} {
    if {[regexp {^[ !#-\[\]-~]*$} $text]} {
        return "\"$text\""
    }
    set result ""
    foreach character [split $text ""] {
        scan $character %c code
        if {$character in {"\"" "\\"}} {
            append result "\\" $character
        } elseif {$code > 0xFFFF} {
            set code [expr {$code - 0x10000}]
            append result [format "\\u%04x\\u%04x" [expr {0xD800 + ($code >> 10)}] [expr {0xDC00 + ($code & 0x3FF)}]]
        } elseif {$code < 32 || $code > 126} {
            append result [format "\\u%04x" $code]
        } else {
            append result $character
        }
    }
    return "\"$result\""
}

proc json_list {items} {
    return "\[[join $items ,]\]"
}

# Called for every command that is not one of Tcl: remembers it and answers.
proc record {line args} {
    lappend ::calls [json_list [list $line [json_list [lmap word $args {json_string $word}]]]]
    if {[lindex $args 0] eq "exit"} {
        return -code error -errorcode SCRIPT_EXIT exit
    }
    foreach {pattern value} $::answers {
        if {[string match $pattern [join $args " "]]} {
            switch -- $value {
                @last { return [lindex $args end] }
                @words { return [lsearch -all -inline -not [lrange $args 1 end] -*] }
                default { return $value }
            }
        }
    }
    return ""
}

# An interpreter without files, clocks and processes; what is hidden here becomes a recorded command as well.
proc new_interpreter {} {
    set child [interp create -safe]
    foreach name {after chan close fconfigure file fileevent flush gets interp puts read update vwait} {
        catch {interp hide $child $name}
    }
    interp alias $child bfpga_record {} record
    interp eval $child {
        proc unknown args {
            if {[llength $args] == 0} {
                set args unknown
            }
            return [bfpga_record [dict get [info frame -1] line] {*}$args]
        }
    }
    interp limit $child time -seconds [expr {[clock seconds] + 3}]
    interp limit $child commands -value 500000
    return $child
}

proc run {scenario script file answers} {
    set ::calls {}
    set ::answers $answers
    set child [new_interpreter]
    set failure null
    if {[catch {interp invokehidden $child source -encoding utf-8 $file} message options]} {
        if {[dict get $options -errorcode] ne "SCRIPT_EXIT"} {
            set line [dict get $options -errorline]
            regexp {\(file "[^\n]*" line (\d+)\)} [dict get $options -errorinfo] match line
            set failure [json_list [list $line [json_string $message]]]
        }
    }
    interp delete $child
    puts "{\"scenario\":[json_string $scenario],\"script\":[json_string $script],\"error\":$failure,\"calls\":[json_list $::calls]}"
}

fconfigure stdin -encoding utf-8
foreach job [read stdin] {
    run {*}$job
}
