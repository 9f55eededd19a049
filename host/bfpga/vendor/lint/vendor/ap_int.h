// Declarations of the arbitrary precision integers, for parsing only: the lint computes nothing with them.
#pragma once

struct lint_bits {
    template <class T>
    constexpr lint_bits& operator=(T) { return *this; }
    constexpr operator long long() const { return 0; }
    constexpr int to_int() const { return 0; }
    constexpr unsigned to_uint() const { return 0; }
    constexpr long long to_int64() const { return 0; }
    constexpr unsigned long long to_uint64() const { return 0; }
    constexpr bool or_reduce() const { return false; }
    constexpr bool and_reduce() const { return false; }
    constexpr bool xor_reduce() const { return false; }
    constexpr int length() const { return 0; }
};

template <int W, bool Signed>
struct lint_integer {
    static constexpr int width = W;

    constexpr lint_integer() {}
    template <class T>
    constexpr lint_integer(const T&) {}

    constexpr operator long long() const { return 0; }
    explicit constexpr operator bool() const { return false; }

    constexpr int to_int() const { return 0; }
    constexpr unsigned to_uint() const { return 0; }
    constexpr long long to_int64() const { return 0; }
    constexpr unsigned long long to_uint64() const { return 0; }
    constexpr bool to_bool() const { return false; }
    constexpr int length() const { return W; }

    lint_bits range(int, int) const { return lint_bits(); }
    lint_bits range() const { return lint_bits(); }
    lint_bits operator()(int, int) const { return lint_bits(); }
    lint_bits operator[](int) const { return lint_bits(); }
    lint_bits bit(int) const { return lint_bits(); }
    template <class T>
    lint_bits concat(const T&) const { return lint_bits(); }
    bool test(int) const { return false; }
    bool get_bit(int) const { return false; }
    void set(int) {}
    void clear(int) {}
    void set_bit(int, bool) {}
    void reverse() {}
    bool or_reduce() const { return false; }
    bool and_reduce() const { return false; }
    bool xor_reduce() const { return false; }
    bool sign() const { return false; }
    bool iszero() const { return false; }

    lint_integer& operator++() { return *this; }
    lint_integer& operator--() { return *this; }
    lint_integer operator++(int) { return *this; }
    lint_integer operator--(int) { return *this; }
#define LINT_ASSIGNMENT(op) \
    template <class T>      \
    lint_integer& operator op(const T&) { return *this; }
    LINT_ASSIGNMENT(+=)
    LINT_ASSIGNMENT(-=)
    LINT_ASSIGNMENT(*=)
    LINT_ASSIGNMENT(/=)
    LINT_ASSIGNMENT(%=)
    LINT_ASSIGNMENT(<<=)
    LINT_ASSIGNMENT(>>=)
    LINT_ASSIGNMENT(&=)
    LINT_ASSIGNMENT(|=)
    LINT_ASSIGNMENT(^=)
#undef LINT_ASSIGNMENT
};

template <int W>
struct ap_int : lint_integer<W, true> {
    using lint_integer<W, true>::lint_integer;
    constexpr ap_int() {}
};

template <int W>
struct ap_uint : lint_integer<W, false> {
    using lint_integer<W, false>::lint_integer;
    constexpr ap_uint() {}
};
