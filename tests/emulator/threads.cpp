// Threads that take turns: each has a stack, and runs until it waits for others.
#include "runtime.h"

#include <stdlib.h>
#include <sys/mman.h>

Thread threads[MOST_THREADS];
unsigned thread_count;
Thread* current;

static void (*started_kernel)(void**);
static void** started_arguments;

static void run_kernel() {
    started_kernel(started_arguments);
    current->state = FINISHED;
    suspend();
    abort();  // nobody resumes a thread that has finished
}

static char* new_stack() {
    void* memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    return (char*)memory;
}

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)

// Saves what a function must keep, on the one stack, and takes it from the other.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.globl emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
.size emulator_switch, .-emulator_switch
)");

static void* outside;

static void prepare(Thread* thread) {
    const int saved_registers = 6;
    void** top = (void**)(thread->stack + STACK - 64);
    *--top = nullptr;  // where run_kernel would return to; it also aligns the stack
    *--top = (void*)run_kernel;
    for (int i = 0; i < saved_registers; ++i) *--top = nullptr;
    thread->context = top;
}

static void enter(Thread* thread) { emulator_switch(&outside, thread->context); }

void suspend() { emulator_switch(&current->context, outside); }

#else

#include <ucontext.h>

static ucontext_t outside;

static void prepare(Thread* thread) {
    if (!thread->context) thread->context = malloc(sizeof(ucontext_t));
    ucontext_t* context = (ucontext_t*)thread->context;
    getcontext(context);
    context->uc_stack.ss_sp = thread->stack;
    context->uc_stack.ss_size = STACK;
    context->uc_link = nullptr;
    makecontext(context, run_kernel, 0);
}

static void enter(Thread* thread) { swapcontext(&outside, (ucontext_t*)thread->context); }

void suspend() { swapcontext((ucontext_t*)current->context, &outside); }

#endif

void start_thread(Thread* thread, void (*kernel)(void**), void** arguments) {
    started_kernel = kernel;
    started_arguments = arguments;
    if (!thread->stack) thread->stack = new_stack();
    thread->state = RUNNING;
    prepare(thread);
}

void resume(Thread* thread) {
    current = thread;
    enter(thread);
    current = nullptr;
}
