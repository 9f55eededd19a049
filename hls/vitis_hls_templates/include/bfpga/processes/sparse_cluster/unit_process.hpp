// The loop of a unit of the sparse cluster, whichever variant it is: values meet the steps of their channel, then the
// sums of the piece leave.
//
// A unit has a piece of the map and runs by itself: it stalls for values of its queue, for the set of steps that they
// meet, and on backpressure of its sums (SC R62). Steps are listed for each channel; kernels without a weight there
// have none (SC R19). Two steps of a kernel are at least as many cycles apart as its sums need: the step lists ensure
// it, with pauses where too few kernels are in flight, and a simulation stops if they do not.
#pragma once
#include "bfpga/processes/sparse_cluster/bank_sums.hpp"
#include "bfpga/processes/sparse_cluster/beats.hpp"

namespace bfpga {

// A report stream without a reader.
struct NoReports {
    void write(int_t<32>) const {}
};

// A step that takes a cycle.
struct SingleClock {
    template <class Entry>
    using Step = Entry;

    void clear() {}
    void begin() {}

    // Whether the cycle is the step's last one.
    bool ends() const { return true; }

    // What is computed in it.
    template <class Entry>
    const Entry& now(const Entry& entry, bool) {
        return entry;
    }

    // A cycle has passed; `next`: another step begins.
    void step(bool) {}
};

// `Reader`: gives tasks, values or marks, out of beats; `Table`: what values meet, step after step; `Sums`: adds what a
// step makes, and gives the blocks that leave; or sends on what is added elsewhere. `Walk`: the cycles of a step.
template <class Config, class Reader, class Table, class Sums, class Walk = SingleClock>
class UnitProcess {
    using T = ClusterUnitTypes<Config>;
    using Beats = typename Reader::Beat;
    using Task = typename Reader::Task;
    using Steps = StepBeat<Config>;
    using Sent = typename Sums::Beat;
    using step_t = typename Table::step_t;

   public:
    UnitProcess() : task_(), place_(0), pitch_(1), plane_(0), last_plane_(0), last_place_(0) { clear(); }

    // Computes until a `stop` has come, without reports.
    void run(stream<wire_t<Beats>>& pieces, stream<wire_t<Steps>>& steps, stream<wire_t<Sent>>& sums) {
#pragma HLS INLINE
        NoReports reports;
        run(pieces, steps, sums, reports);
    }

    // As above; `reports`: values that were issued, and steps that they took (SC R153).
    template <class Reports>
    void run(stream<wire_t<Beats>>& pieces, stream<wire_t<Steps>>& steps, stream<wire_t<Sent>>& sums,
             Reports& reports) {
#pragma HLS INLINE
        clear();
        sums_.clear();
        bool running = true;
        PipelinedLoop loop("Unit");
    Unit:
        while (running) {
// II=1: what is decided in a cycle are flags and counters of the one before; a sum is met again `sum_distance` cycles
// later at the earliest.
#pragma HLS PIPELINE II=1
#pragma HLS LOOP_TRIPCOUNT min=16 max=1048576
            loop.iteration();
            running = !stops_;
            compute(sums);
            const bool free = !values_ || last_step_;
            const bool takes = reader_.there() && free && !drains_ && !pauses_ && !stops_ && ready();
            const bool ends = takes && !reader_.task().is_value && reader_.task().ends;
            go_on();
            if (takes) {
                take();
            }
            reader_.step(takes, pieces);
            table_.step(ends, steps);
        }
        loop.ended();
        reports.write(issued_);
        reports.write(rounds_);
    }

   private:
    void clear() {
#pragma HLS INLINE
        walk_.clear();
        values_ = false;
        at_last_ = false;
        last_step_ = false;
        drains_ = false;
        pauses_ = false;
        pause_ = 0;
        last_number_ = 0;
        step_ = 0;
        stops_ = false;
        issued_ = 0;
        rounds_ = 0;
    }

    // Whether what waits can begin: a value, or the end of a set, needs the set.
    bool ready() const {
#pragma HLS INLINE
        const bool needs = reader_.task().is_value || reader_.task().ends;
        return !needs || table_.readable();
    }

    // The step of a value, or the block that leaves.
    void compute(stream<wire_t<Sent>>& sums) {
#pragma HLS INLINE
        const typename Table::Entry entry = table_.read(task_.channel, step_, values_);
        const typename Walk::template Step<typename Table::Entry>& step = walk_.now(entry, values_);
        const bool adds = values_ && step.adds;
        const bool leaves = drains_ && !pauses_;
        const bool busy = values_ || drains_ || pauses_ || stops_;
        Sent sent;
        sums_.step(adds, leaves, leaves ? place_ : task_.place, pitch_, leaves ? plane_ : step.plane, task_, step,
                   sent);
        if (Sums::sends_all ? busy : leaves) {
            Sums::stop(sent, stops_);
            sums.write(to_wire(sent));
        }
        rounds_ += adds ? 1 : 0;
        simulation_check(!values_ || step_ > 0 || !last_step_, "a channel", "has too few steps:", 1);
    }

    // What is computed goes on.
    void go_on() {
#pragma HLS INLINE
        const bool leaves = drains_ && !pauses_;
        const bool last = leaves && plane_ == last_plane_ && place_ == last_place_;
        if (pauses_) {
            pauses_ = pause_ != 1;
            pause_ = static_cast<pause_t>(pause_ - 1);
        }
        if (leaves) {
            const bool next = plane_ == last_plane_;
            plane_ = next ? static_cast<typename T::plane_t>(0) : static_cast<typename T::plane_t>(plane_ + 1);
            place_ = next ? T::behind(place_, 1) : place_;
        }
        if (last) {
            drains_ = false;
            pause();
        }
        const step_t following = static_cast<step_t>(step_ + 1);
        const bool ends = last_step_;
        const bool next = values_ && walk_.ends();
        at_last_ = next ? following == last_number_ : at_last_;
        walk_.step(next);
        last_step_ = values_ && at_last_ && walk_.ends();
        step_ = next ? following : step_;
        values_ = values_ && !ends;
    }

    // Between the last step of a value and the first block that leaves, and after the last one.
    void pause() {
#pragma HLS INLINE
        pauses_ = true;
        pause_ = Sums::distance;
    }

    void take() {
#pragma HLS INLINE
        const Task& next = reader_.task();
        if (next.is_value) {
            task_ = next;
            values_ = true;
            step_ = 0;
            last_number_ = table_.last(next.channel);
            at_last_ = false;
            last_step_ = false;
            walk_.begin();
            issued_ += next.values();
        } else if (next.opens) {
            pitch_ = next.place;
        } else if (next.drains) {
            drains_ = true;
            place_ = 0;
            plane_ = 0;
            last_place_ = next.place;
            last_plane_ = static_cast<typename T::plane_t>(next.last_kernel());
            pause();
        } else if (next.stop) {
            stops_ = true;
        }
    }

    using pause_t = uint_t<bit_length(Sums::distance)>;

    Reader reader_;
    Table table_;
    Sums sums_;
    Walk walk_;
    Task task_;                               // what is computed with
    bool values_, at_last_, last_step_;       // there is one; it is in its last step; in the last cycle of that
    step_t step_, last_number_;               // its step; the last one
    bool drains_, pauses_, stops_;            // sums leave; nothing happens; the start ends
    pause_t pause_;                           // cycles of the pause that are left
    typename T::place_t place_;               // the block that leaves
    typename T::place_t pitch_;               // blocks per row
    typename T::plane_t plane_, last_plane_;  // the kernel whose sums leave; the last one
    typename T::place_t last_place_;
    int_t<32> issued_, rounds_;
};

}  // namespace bfpga
