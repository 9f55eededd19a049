# Runs scripts of the vendor's tools in interpreters that know Tcl and nothing else, and prints what they called.
#
# Standard input: a Tcl list of runs, each {file answers}; answers are pairs of a pattern over a whole command and what
# it returns, all in base64. Standard output: for each command `call LINE WORD,WORD...` with words in base64, for each
# run a last line `end 0` or `error LINE MESSAGE`.

proc encode {text} {
    return [binary encode base64 [encoding convertto utf-8 $text]]
}

proc decode {text} {
    return [encoding convertfrom utf-8 [binary decode base64 $text]]
}

# Called for every command that is not one of Tcl. What names objects returns itself in brackets, as it is written.
proc record {line args} {
    puts "call $line [join [lmap word $args {encode $word}] ,]"
    if {[lindex $args 0] eq "exit"} {
        return -code error -errorcode SCRIPT_EXIT exit
    }
    set command [join $args " "]
    if {[dict exists $::answers [lindex $args 0]]} {
        foreach {pattern value} [dict get $::answers [lindex $args 0]] {
            if {[string match $pattern $command]} {
                return $value
            }
        }
    }
    return [expr {[regexp {^(ipx::)?(get|current)_|^ipx::add_} $command] ? "\[$command\]" : ""}]
}

# An interpreter without files, clocks and processes; what is hidden here becomes a recorded command as well.
proc new_interpreter {} {
    set child [interp create -safe]
    foreach name {after chan close fconfigure file fileevent flush gets interp puts read update vwait} {
        catch {interp hide $child $name}
    }
    interp alias $child bfpga_record {} record
    interp eval $child {
        proc unknown {{name unknown} args} {
            return [bfpga_record [dict get [info frame -1] line] $name {*}$args]
        }
    }
    interp limit $child time -seconds [expr {[clock seconds] + 3}]
    interp limit $child commands -value 500000
    return $child
}

proc run {file answers} {
    set ::answers {}
    foreach {pattern value} $answers {
        set pattern [decode $pattern]
        dict lappend ::answers [lindex [split $pattern] 0] $pattern [decode $value]
    }
    set child [new_interpreter]
    set end "end 0"
    if {[catch {interp invokehidden $child source -encoding utf-8 $file} message options]} {
        if {[dict get $options -errorcode] ne "SCRIPT_EXIT"} {
            set line [dict get $options -errorline]
            regexp {\(file "[^\n]*" line (\d+)\)} [dict get $options -errorinfo] match line
            set end "error $line [encode $message]"
        }
    }
    interp delete $child
    puts $end
}

fconfigure stdout -buffering full
foreach job [read stdin] {
    run {*}$job
}
