# The commands of the vendor's tools, as far as a build's scripts need them to have effects.
foreach name {mode stage version ip csynth hwh bit utilization timing wns whs part clock_hz} {
    set stand_in($name) $env(STAND_IN_[string toupper $name])
}
set ip_repository ""
set verilog {}
set constraints {}
set progress(synth_1) "0%"
set progress(impl_1) "0%"

# What has no effect that a script sees returns its last word: get_bd_cells ps, get_runs impl_1, ...
proc unknown {args} { return [lindex $args end] }

proc option {words name} {
    set place [lsearch -exact $words $name]
    return [expr {$place < 0 ? "" : [lindex $words [expr {$place + 1}]]}]
}
proc write_text {path text} {
    file mkdir [file dirname $path]
    set file [open $path w]
    puts $file $text
    close $file
}
proc version {args} { return $::stand_in(version) }
proc current_project {args} { return project }

# HLS
proc open_project {args} {
    set name [lindex $args end]
    if {[lindex $args 0] eq "-reset"} {
        set ::hls [file join [pwd] $name]
        file mkdir $::hls
        return
    }
    if {![file exists $name]} { error "ERROR: \[Project 1-161\] Failed to open project $name" }
    set ::folder [file dirname $name]
    set file [open $name r]
    set ::project_part [string trim [read $file]]
    close $file
}
proc set_part {part} {
    if {$::stand_in(part) ne ""} { error "ERROR: \[HLS 200-1023\] Part '$part' is not installed." }
}
proc csynth_design {args} {
    puts "INFO: \[SYN 201-201\] Setting up clock 'default'"
    set folder [file join $::hls solution syn report]
    file mkdir $folder
    file copy $::stand_in(csynth) [file join $folder csynth.xml]
}
proc export_design {args} {
    file mkdir [file join $::hls solution impl]
    file copy $::stand_in(ip) [file join $::hls solution impl ip]
}

# Block design
proc get_board_parts {args} {
    if {$::stand_in(mode) eq "board_files"} { return "" }
    return [string map {* 1.0} [lindex $args end]]
}
proc create_project {name folder args} {
    set part [option $args -part]
    if {$::stand_in(mode) eq "part"} { error "ERROR: \[Coretcl 2-106\] Specified part could not be found." }
    set ::folder $folder
    set ::name $name
    set ::project_part $part
    write_text [file join $folder $name.xpr] $part
}
proc set_property {args} {
    if {[lindex $args 0] eq "ip_repo_paths"} { set ::ip_repository [lindex $args 1] }
    if {[lindex $args 0] eq "top"} { set ::top [lindex $args 1] }
    if {[llength $args] == 3} { set ::ipx::values([lindex $args 2],[lindex $args 0]) [lindex $args 1] }
}
proc get_ipdefs {args} {
    set pattern [lindex $args end]
    if {[string match *:hls:* $pattern]} {
        return [expr {[in_repository [lindex [split $pattern :] 2]] ? $pattern : ""}]
    }
    return [string map {* 1.0} $pattern]
}
# Packaging: what a script says of an IP ends in its component.xml, with the ports that the Verilog itself has.
namespace eval ipx {
    proc package_project {args} {
        variable folder [option $args -root_dir] vendor [option $args -vendor] library [option $args -library]
        variable ports {} buses {} registers {} core {} values
        array unset values
        file mkdir [file join $folder src]
        foreach file $::verilog {
            set channel [open $file r]
            set text [read $channel]
            close $channel
            if {[regexp "module ${::top} ?\\((\[^;\]*)\\);" $text match head]} {
                foreach {match range name} [regexp -all -inline {put\s+(?:wire|reg)?\s*(\[\d+:0\])?\s*(\w+)} $head] {
                    lappend ports $name [expr {$range eq "" ? 0 : [scan $range {[%d}]}]
                }
                file copy $file [file join $folder src]
            }
        }
        foreach file $::constraints { file copy $file [file join $folder src] }
    }
    proc current_core {} { return core }
    proc get_ports {args} { return [dict keys $::ipx::ports [lindex $args 1]] }
    proc get_memory_maps {args} { return {} }
    proc get_bus_interfaces {name args} { return "bus $name" }
    proc remove_all_bus_interface {core} { variable buses {} }
    proc add_bus_interface {name core} { variable buses; lappend buses $name; return "bus $name" }
    proc add_port_map {signal bus} { return "map [lindex $bus 1] $signal" }
    proc add_bus_parameter {name bus} { return "parameter [lindex $bus 1] $name" }
    proc add_memory_map {name core} { return "map $name" }
    proc add_address_block {name map} { return "block [lindex $map 1] $name" }
    proc add_register {name block} { variable registers; lappend registers $name; return "register $name" }
    proc add_field {name register} { return "field [lindex $register 1] $name" }
    proc said {object property} { variable values; return $values($object,$property) }
    proc tag {name text} { return "<spirit:$name>$text</spirit:$name>" }
    proc check_integrity {core} {
        variable ports
        variable values
        foreach key [array names values "map *,physical_name"] {
            if {![dict exists $ports $values($key)]} { error "ERROR: \[IP_Flow 19-5107\] no port $values($key)" }
        }
    }
    proc save_core {core} {
        variable folder
        set text "<spirit:component xmlns:spirit=\"http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009\">"
        foreach part {vendor library} { append text [tag $part [set ::ipx::$part]] }
        foreach part {name version} { append text [tag $part [said core $part]] }
        append text [tag busInterfaces [described_buses]]
        set listed ""
        foreach name $::ipx::registers {
            append listed [tag register [tag name $name][tag addressOffset [said "register $name" address_offset]]]
        }
        append text [tag memoryMaps [tag memoryMap [tag addressBlock $listed]]]
        append text [tag model [tag ports [described_ports]]]
        write_text [file join $folder component.xml] "$text</spirit:component>"
    }
    proc described_ports {} {
        set text ""
        dict for {name left} $::ipx::ports {
            set vector [expr {$left ? [tag vector [tag left $left][tag right 0]] : ""}]
            append text [tag port [tag name $name][tag wire $vector]]
        }
        return $text
    }
    proc described_buses {} {
        set text ""
        foreach name $::ipx::buses {
            set kind [lindex [split [said "bus $name" bus_type_vlnv] :] 2]
            set maps ""
            foreach key [lsort [array names ::ipx::values "map $name *,physical_name"]] {
                set signal [lindex [split [lindex $key 2] ,] 0]
                append maps [tag portMap [tag logicalPort [tag name $signal]][tag physicalPort [tag name $::ipx::values($key)]]]
            }
            set said ""
            foreach key [lsort [array names ::ipx::values "parameter $name *,value"]] {
                set parameter [lindex [split [lindex $key 2] ,] 0]
                append said [tag parameter [tag name $parameter][tag value $::ipx::values($key)]]
            }
            append text [tag busInterface "[tag name $name]<spirit:busType spirit:name=\"$kind\"/><spirit:[said "bus $name" \
                interface_mode]/>[tag portMaps $maps][tag parameters $said]"]
        }
        return $text
    }
}

proc in_repository {name} {
    foreach file [glob -nocomplain [file join $::ip_repository */component.xml]] {
        set channel [open $file r]
        set found [string match "*<spirit:name>$name<*" [read $channel]]
        close $channel
        if {$found} { return 1 }
    }
    return 0
}
proc can_resolve_reference {module} {
    foreach file $::verilog {
        set channel [open $file r]
        set found [regexp "module $module" [read $channel]]
        close $channel
        if {$found} { return 1 }
    }
    return 0
}
proc add_files {args} {
    set file [expr {[string match -* [lindex $args 0]] ? [lindex $args end] : [lindex $args 0]}]
    if {![file exists $file]} { error "ERROR: \[Vivado 12-172\] File or Directory '$file' does not exist" }
    if {[string match *.v $file]} { lappend ::verilog $file } else { lappend ::constraints $file }
}
proc generate_target {args} {
    set folder [expr {$::stand_in(version) < 2020.2 ? "srcs" : "gen"}]
    set target [file join $::folder $::name.$folder sources_1 bd system hw_handoff system.hwh]
    file mkdir [file dirname $target]
    file copy -force $::stand_in(hwh) $target
}
proc get_property {name args} {
    switch -glob $name {
        PART { return [expr {$::stand_in(mode) eq "wrong_part" ? "xc7z010clg400-1" : $::project_part}] }
        PROGRESS { return $::progress([lindex $args 0]) }
        STATUS { return "synth_design ERROR" }
        STATS.WNS { return $::stand_in(wns) }
        STATS.TNS { return [expr {$::stand_in(wns) < 0 ? $::stand_in(wns) * 10 : 0.0}] }
        STATS.WHS { return $::stand_in(whs) }
        CONFIG.FREQ_HZ { return $::stand_in(clock_hz) }
        default { return [lindex $args 0] }
    }
}

# Runs
proc reset_run {run} {
    file delete -force [file join $::folder bfpga.runs $run]
    set ::progress($run) "0%"
}
proc launch_runs {run args} {
    set log [file join $::folder bfpga.runs $run runme.log]
    set text "*** Running vivado\n"
    switch $::stand_in(mode) {
        license {
            append text "INFO: \[Common 17-1\] starting\nERROR: \[Common 17-345\] A valid license was not found for "
            append text "feature 'Synthesis' and/or device '$::project_part'."
        }
        place {
            append text "ERROR: \[DRC UTLZ-1\] Resource utilization: Slice LUTs over-utilized in Top Level Design "
            append text "(This design requires more Slice LUTs cells than are available in the target device.)"
        }
        out_of_memory { append text "/opt/Vivado/bin/loader: line 312: 4711 Killed" }
        run_error { append text "ERROR: \[Synth 8-439\] module 'bfpga_systolic' not found \[/a/system.v:12\]" }
        default { set ::progress($run) "100%" }
    }
    write_text $log $text
    if {$run eq "impl_1" && $::progress($run) eq "100%" && $::stand_in(mode) ne "no_bitstream"} {
        file copy $::stand_in(bit) [file join $::folder bfpga.runs impl_1 system_wrapper.bit]
    }
    if {$::progress($run) ne "100%"} {
        puts "ERROR: \[Vivado 12-13638\] Failed runs(s) : '$run'"
    }
}
proc report_utilization {args} {
    set file [open $::stand_in(utilization) r]
    set text [read $file]
    close $file
    set target [option $args -file]
    if {$target ne "" && $::stand_in(mode) ne "no_report"} { write_text $target $text }
    return $text
}
proc report_timing_summary {args} { file copy -force $::stand_in(timing) [option $args -file] }
proc write_hw_platform {args} { write_text [lindex $args end] "platform" }

source [lindex $argv 0]
