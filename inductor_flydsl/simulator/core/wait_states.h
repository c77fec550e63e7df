/* The wait states that software has to keep between instructions: checked as a wave executes them. wait_states.py has
   the rules and says what a search, a class and a role are. */
#ifndef GFX950_WAIT_STATES_H
#define GFX950_WAIT_STATES_H

#include "core.h"

enum { OVERLAP_NOT_ASKED = 0, OVERLAP_ANY, OVERLAP_IDENTICAL, OVERLAP_CLAUSE };

typedef struct {
    u32 search;
    u32 produces, consumes; /* classes: any of them */
    u32 written, used;      /* roles of the producer's and the consumer's operand: any of them */
    u32 overlap;
    u32 same_subject;
    u32 states;
    u32 window; /* a producer is not looked for from this many states on; of a clause: instructions */
} WaitRule;

enum { WAIT_OPERANDS = 8, WAIT_SEARCHES = 32, WAIT_WINDOW = 20, WAIT_PRODUCERS = 32 };
enum { ROLE_WRITTEN = 1 };

typedef struct {
    u16 first; /* vector rows from 0, scalars from 512 */
    u16 count;
    u16 roles; /* 0: no operand */
} WaitOperand;

/* An instruction. */
typedef struct {
    u32 produces, consumes; /* the searches that it may begin and end, as bits */
    u32 classes;
    u32 subject;
    u16 states;        /* the wait states that it stands for */
    u16 writes_memory; /* memory or LDS, from a vector memory instruction */
    WaitOperand operands[WAIT_OPERANDS];
} WaitFacts;

typedef struct {
    const WaitFacts *facts;
    u32 instruction;
    u32 slot;
} WaitProducer;

/* What one wave has executed lately. Slots count wait states. */
typedef struct {
    u32 slot;
    u32 next;     /* the instruction behind the last one: where another follows, a jump was taken */
    u32 run_slot; /* where the instructions since the last jump begin */
    u64 path;     /* stands for the jumps of the window before that */
    bool reported;
    WaitProducer producers[WAIT_PRODUCERS];
    u32 producer_count;
    u32 produced_at[WAIT_SEARCHES]; /* the slot behind the last producer of each search */
} WaitHistory;

/* Called for a pair of instructions with fewer wait states between them than are needed, by a rule of `search`. */
typedef void (*WaitReport)(void *context, u32 first, u32 second, u32 search, u32 needed, u32 found);

void start_wait_states(WaitHistory *history);

/* The instruction is about to be executed. `clean`: per instruction of the program the path on which it was last
   found clean, 0 at first; loops come the same way again and again, and that is not looked into twice. */
void check_wait_states(WaitHistory *history, const WaitRule *rules, u32 rule_count, const WaitFacts *facts,
                       u32 instruction, u64 *clean, WaitReport report, void *context);

#endif
