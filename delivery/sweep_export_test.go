package delivery

// WaterLevel is what each log may take where all have a bound together.
var WaterLevel = waterLevel
