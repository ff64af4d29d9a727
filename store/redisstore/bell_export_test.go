package redisstore

// Tell passes one message on to the ear, as Listen does.
func Tell(ear Ear, message string) error { return (&listener{db: &DB{}, ear: ear}).tell(message) }
