// Builds of a test, of which a call chooses one by its number.
#pragma once
#include <cstring>
#include <exception>

template <class... Builds>
struct List {};

// Calls `action` for the build of a number, counted down along the list; 1 if there is none.
template <class Action, class... Builds>
int with_build(int number, const Action& action, const List<Builds...>*) {
    int left = number;
    int result = 1;
    const int expand[] = {(left-- == 0 ? (result = action.template apply<Builds>(), 0) : 0)...};
    static_cast<void>(expand);
    return result;
}

// Calls `own`; 0, or 2 and a message (256) if it stops with an error.
template <class Own>
int caught(char* message, const Own& own) {
    try {
        own();
    } catch (const std::exception& error) {
        std::strncpy(message, error.what(), 255);
        return 2;
    }
    return 0;
}
