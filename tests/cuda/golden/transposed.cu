extern "C" __global__ void __launch_bounds__(256)
k0_add(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    const int v1 = (task * 256);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 256), 8255)) {
            const int v3 = (i_2 / 65);
            const int v4 = (i_2 % 65);
            const float v5 = x0[((v4 * 127) + v3)];
            float t0_6 = (v5 + 1.0f);
            b0[((v3 * 65) + v4)] = t0_6;
        }
    }
}
