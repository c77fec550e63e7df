#include "wait_states.h"

typedef struct {
    WaitHistory *history;
    const WaitRule *rules, *end; /* of one search */
    const WaitFacts *facts;
    u32 instruction;
    WaitReport report;
    void *context;
} Search;

static bool overlap(const WaitOperand *a, const WaitOperand *b) {
    return a->first < b->first + b->count && b->first < a->first + a->count;
}

static bool touches(const WaitFacts *producer, const WaitOperand *used) {
    for (u32 n = 0; n < WAIT_OPERANDS && producer->operands[n].roles; ++n)
        if (overlap(&producer->operands[n], used)) return true;
    return false;
}

/* The rule of the search, if any, that holds behind the producer through the operand. */
static const WaitRule *rule_between(const Search *search, const WaitFacts *producer, const WaitOperand *used) {
    for (const WaitRule *rule = search->rules; rule < search->end; ++rule) {
        if (!(rule->produces & producer->classes) || !(rule->consumes & search->facts->classes)) continue;
        if (rule->same_subject && producer->subject != search->facts->subject) continue;
        if (rule->overlap == OVERLAP_NOT_ASKED) return rule;
        if (!(rule->used & used->roles)) continue;
        for (u32 n = 0; n < WAIT_OPERANDS && producer->operands[n].roles; ++n) {
            const WaitOperand *written = &producer->operands[n];
            if (!(rule->written & written->roles) || !overlap(written, used)) continue;
            if (rule->overlap == OVERLAP_IDENTICAL && (written->first != used->first || written->count != used->count))
                continue;
            return rule;
        }
    }
    return NULL;
}

static const WaitProducer *producer_before(const WaitHistory *history, u32 n) {
    if (n > history->producer_count || n > WAIT_PRODUCERS) return NULL;
    return &history->producers[(history->producer_count - n) % WAIT_PRODUCERS];
}

static void found(const Search *search, const WaitProducer *producer, u32 needed, u32 states) {
    search->history->reported = true;
    search->report(search->context, producer->instruction, search->instruction, search->rules->search, needed, states);
}

/* The nearest producer that a rule holds for decides. `used` is NULL where registers do not matter. */
static void search_back(const Search *search, const WaitOperand *used) {
    const WaitHistory *history = search->history;
    for (u32 n = 1;; ++n) {
        const WaitProducer *producer = producer_before(history, n);
        if (!producer || history->slot - producer->slot >= search->rules->window) return;
        if (!(producer->facts->produces >> search->rules->search & 1)) continue;
        if (used && !touches(producer->facts, used)) continue;
        const WaitRule *rule = rule_between(search, producer->facts, used);
        if (!rule) continue;
        u32 states = history->slot - producer->slot;
        if (states < rule->states) found(search, producer, rule->states, states);
        return;
    }
}

typedef struct {
    WaitOperand written[WAIT_OPERANDS * (WAIT_WINDOW + 1)], read[WAIT_OPERANDS * (WAIT_WINDOW + 1)];
    u32 written_count, read_count;
} Clause;

static u32 add_to_clause(Clause *clause, const WaitFacts *facts) {
    u32 before = clause->written_count;
    for (u32 n = 0; n < WAIT_OPERANDS && facts->operands[n].roles; ++n) {
        const WaitOperand *operand = &facts->operands[n];
        if (operand->roles & ROLE_WRITTEN) clause->written[clause->written_count++] = *operand;
        if (operand->roles & ~(u32)ROLE_WRITTEN) clause->read[clause->read_count++] = *operand;
    }
    return clause->written_count - before;
}

static bool depends_on_itself(const Clause *clause) {
    for (u32 n = 0; n < clause->written_count; ++n)
        for (u32 m = 0; m < clause->read_count; ++m)
            if (overlap(&clause->written[n], &clause->read[m])) return true;
    return false;
}

/* Instructions of one kind that follow each other with no other between them are replayed as one. */
static void check_clause(const Search *search) {
    const WaitRule *rule = search->rules;
    while (rule < search->end && !(rule->consumes & search->facts->classes)) ++rule;
    if (rule == search->end) return;
    Clause clause;
    clause.written_count = clause.read_count = 0;
    const WaitProducer *loader = NULL;
    for (u32 n = 1; n <= rule->window; ++n) {
        const WaitProducer *producer = producer_before(search->history, n);
        if (!producer || search->history->slot - producer->slot != n - 1) break;
        if (!(rule->produces & producer->facts->classes)) break;
        if (add_to_clause(&clause, producer->facts) && !loader) loader = producer;
    }
    if (!loader) return;
    add_to_clause(&clause, search->facts);
    if (search->facts->writes_memory || depends_on_itself(&clause)) found(search, loader, rule->states, 0);
}

static void note_producer(WaitHistory *history, const WaitFacts *facts, u32 instruction) {
    u32 slot = history->slot + facts->states;
    history->producers[history->producer_count++ % WAIT_PRODUCERS] =
        (WaitProducer){.facts = facts, .instruction = instruction, .slot = slot};
    for (u32 rest = facts->produces; rest; rest &= rest - 1) history->produced_at[__builtin_ctz(rest)] = slot;
}

enum { PATH_STRAIGHT = 1, PATH_START = 2 };

void start_wait_states(WaitHistory *history) {
    memset(history, 0, sizeof *history);
    history->slot = history->run_slot = WAIT_WINDOW;
    history->path = PATH_START;
}

/* What the window's producers are: the instructions in it, which the jumps in it and the last instruction decide. */
static u64 follow(WaitHistory *history, u32 instruction) {
    bool straight = history->slot - history->run_slot >= WAIT_WINDOW;
    if (instruction != history->next) {
        u64 before = straight ? PATH_STRAIGHT : history->path, jump = (u64)history->next << 32 | instruction;
        u64 mixed = (before ^ jump * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
        history->path = (mixed ^ mixed >> 29) | 4;
        history->run_slot = history->slot;
        straight = false;
    }
    history->next = instruction + 1;
    return straight ? PATH_STRAIGHT : history->path;
}

static void check_searches(WaitHistory *history, const WaitRule *rules, u32 rule_count, const WaitFacts *facts,
                           u32 instruction, WaitReport report, void *context) {
    const WaitRule *rule = rules, *end = rules + rule_count;
    for (u32 rest = facts->consumes; rest; rest &= rest - 1) {
        u32 number = (u32)__builtin_ctz(rest);
        /* Most searches have nothing to find: none of their producers has been executed for long. */
        if (history->slot - history->produced_at[number] >= WAIT_WINDOW) continue;
        while (rule < end && rule->search < number) ++rule;
        Search search = {
            .history = history, .rules = rule, .facts = facts, .instruction = instruction, .report = report,
            .context = context,
        };
        while (rule < end && rule->search == number) ++rule;
        search.end = rule;
        if (search.rules == search.end) continue;
        if (search.rules->overlap == OVERLAP_CLAUSE) {
            check_clause(&search);
        } else if (search.rules->overlap == OVERLAP_NOT_ASKED) {
            search_back(&search, NULL);
        } else {
            for (u32 n = 0; n < WAIT_OPERANDS && facts->operands[n].roles; ++n)
                search_back(&search, &facts->operands[n]);
        }
    }
}

void check_wait_states(WaitHistory *history, const WaitRule *rules, u32 rule_count, const WaitFacts *facts,
                       u32 instruction, u64 *clean, WaitReport report, void *context) {
    u64 path = follow(history, instruction);
    if (facts->consumes && clean[instruction] != path) {
        history->reported = false;
        check_searches(history, rules, rule_count, facts, instruction, report, context);
        if (!history->reported) clean[instruction] = path;
    }
    if (facts->produces) note_producer(history, facts, instruction);
    history->slot += facts->states;
}
