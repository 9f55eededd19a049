"""A stand-in for the vendor's tools: runs the real scripts in `tclsh` and fails as it is told.

`$BFPGA_STAND_IN` names a JSON file: version, content of the files that the tools would write, and `failures`, which
says for a stage how it shall fail. The first argument is the name under which the program was called. What they say of
their version is in files beside it, which the programs themselves show.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
Y2K22 = (
    "source run_ippack.tcl -notrace\nbad lexical cast: source type value could not be interpreted as target\n"
    '    while executing\n"rdi::set_property core_revision 2201061327 {component component_1}"\n'
    "ERROR: [IMPL 213-28] Failed to generate IP.\ncommand 'ap_source' returned error code"
)


def say(text):
    print(text, flush=True)


def fail(stage, mode):
    """Ways to end that need no script."""
    if mode == "error":
        say(
            "INFO: [HLS 200-10] starting\nERROR: [XFORM 203-123] an error of the tool\n"
            "ERROR: [Common 17-39] and its echo"
        )
        sys.exit(1)
    if mode == "error_with_zero":
        say("ERROR: [HLS 200-70] an error that the exit code hides")
        sys.exit(0)
    if mode == "silent":
        say("INFO: all is well")
        sys.exit(0)
    if mode == "wordless":
        say("INFO: the last thing it did")
        sys.exit(3)
    if mode == "killed":
        say("INFO: routing")
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "killed_in_shell":
        say('/opt/tool/bin/loader: line 312: 4711 Killed                  "$RDI_PROG" "$@"')
        sys.exit(1)
    if mode == "hang":
        # A helper that ignores the polite request and has a session of its own, as the tools' helpers have.
        subprocess.Popen(
            [sys.executable, "-S", "-c", "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
            start_new_session=True,
        )
        say("INFO: Phase 4.1 Global Iteration 0")
        time.sleep(600)
    if mode == "y2k22":
        say(Y2K22)
        sys.exit(1)
    if mode == "part" and stage.startswith("hls_"):
        say("ERROR: [HLS 200-1023] Part 'xc7z999' is not installed.")
        sys.exit(1)


def script_of(name, words):
    """The script that a call names."""
    for option in ("-f", "--tcl", "-source", "--config"):
        if option in words:
            return words[words.index(option) + 1]
    say(f"ERROR: {name} does not know the arguments {words}")
    sys.exit(1)


def source_of(path):
    """The text of a C++ file; empty if there is none."""
    if not os.path.isfile(path):
        return ""
    with open(path) as file:
        return file.read()


def of_top(config, key, top):
    """What is handed out for a top function."""
    return config[f"{key}_{top}"]


def top_of(script):
    """The top function that a script sets."""
    with open(script) as file:
        return next((line.split()[1] for line in file if line.startswith("set_top ")), "")


def run_config(words, config):
    """The config-file flow: synthesis, or packaging of what it left."""
    with open(words[words.index("--config") + 1]) as file:
        options = dict(line.strip().split("=", 1) for line in file if "=" in line)
    folder = os.path.join(words[words.index("--work_dir") + 1], "hls")
    top = options["syn.top"]
    if f"void {top}(" not in source_of(options["syn.file"]):
        say("ERROR: [HLS 200-70] the top function was not found")
        sys.exit(1)
    if "--package" not in words:
        os.makedirs(os.path.join(folder, "syn", "report"))
        shutil.copy(of_top(config, "csynth", top), os.path.join(folder, "syn", "report", "csynth.xml"))
    elif not os.path.isdir(os.path.join(folder, "syn")):
        say("ERROR: [HLS 200-101] there is no synthesized design to package")
        sys.exit(1)
    else:
        shutil.copytree(of_top(config, "ip", top), os.path.join(folder, "impl", "ip"))


def main():
    name, words = sys.argv[1], sys.argv[2:]
    with open(os.environ["BFPGA_STAND_IN"]) as file:
        config = json.load(file)
    script = script_of(name, words)
    stage = os.path.basename(script).split(".")[0]
    if script.endswith(".cfg"):
        step = "_package" if "--package" in words else ""
        stage = stage[: -len("_config")] + step
    with open(config["calls"], "a") as file:
        file.write(f"{stage} {name}\n")
    say(f"****** {name} v{config['version']} (64-bit)")
    time.sleep(config.get("seconds", 0))
    mode = config["failures"].get(stage, "")
    fail(stage, mode)
    if script.endswith(".cfg"):
        run_config(words, config)
        return
    environment = {**os.environ, "STAND_IN_MODE": mode, "STAND_IN_STAGE": stage}
    for key in ("version", "hwh", "bit", "utilization", "timing", "wns", "whs", "part", "clock_hz"):
        environment[f"STAND_IN_{key.upper()}"] = str(config.get(key, ""))
    if stage.startswith("hls"):
        top = top_of(script)
        environment |= {f"STAND_IN_{key.upper()}": of_top(config, key, top) for key in ("ip", "csynth")}
    else:
        environment |= {"STAND_IN_IP": "", "STAND_IN_CSYNTH": ""}
    sys.stdout.flush()
    os.execvpe("tclsh", ["tclsh", os.path.join(HERE, "commands.tcl"), script], environment)


if __name__ == "__main__":
    main()
